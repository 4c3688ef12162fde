"""Apprise URLs: wrong ones are refused, and no message quotes their secrets."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from io import StringIO

import pytest

from tests.mailserver import MailServer
from tests.metadata import NOW
from webcrawl.alarms.outbox import Notice
from webcrawl.alarms.targets import Targets, id_of, shown, without_secrets
from webcrawl.config import read
from webcrawl.config.passwords import hide_in_log
from webcrawl.errors import ConfigurationError

NOTICE = Notice(
    "key", "STALLED", "broad: <b>bold</b> & more\r\nBcc: evil@example.com", "<i>text</i>\n  line", NOW
)
SECRET = "s3cr3tpassword"


@pytest.fixture
def logged() -> Iterator[StringIO]:
    """What a log of the process has at level DEBUG; caplog also has what does not reach it."""
    log, root = StringIO(), logging.getLogger()
    handler, level = logging.StreamHandler(log), root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield log
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (f"slak://{SECRET}/{SECRET}", "slak://..."),
        (f"tgram://{SECRET}", "tgram://..."),
        (f"mailto://user:{SECRET}@", "mailto://..."),
        (SECRET, "?://..."),
        ("json://", "json://..."),
    ],
)
def test_a_url_that_apprise_cannot_use_is_refused_without_its_secrets(
    url: str, name: str, logged: StringIO
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Targets(["json://127.0.0.1", url])
    assert str(refused.value).startswith(f"NOTIFY, entry 2 ({name}): Apprise cannot use it: ")
    assert SECRET not in str(refused.value) + logged.getvalue()


def test_text_arrives_as_text() -> None:
    """No markup, and no further header from a title."""
    with MailServer() as mail:
        targets = Targets([mail.url])
        assert targets.send(targets.ids[0], NOTICE) == ""
        (letter,) = mail.letters
    assert letter.subject == "broad: <b>bold</b> & more Bcc: evil@example.com"
    assert letter.text.strip().splitlines() == ["<i>text</i>", "  line"]


@pytest.mark.parametrize(
    "url",
    [
        f"mailto://user:{SECRET}@127.0.0.1:9?from=a@example.com&to={SECRET}@example.com",
        f"json://user:{SECRET}@127.0.0.1:9/{SECRET}?+token={SECRET}",
    ],
)
def test_a_failure_is_told_without_secrets(url: str, logged: StringIO) -> None:
    targets = Targets([url])
    error = targets.send(targets.ids[0], NOTICE)
    assert error.startswith(f"{url.partition(':')[0]}://127.0.0.1: ")
    assert SECRET not in error + logged.getvalue()


def test_ids_and_messages_do_not_tell_the_url() -> None:
    url = f"slack://{SECRET}/{SECRET}/%73ecret"
    assert id_of(url) == id_of(url) != id_of(url + "2")
    assert SECRET not in id_of(url) + shown(url)
    assert (
        without_secrets(f"cannot open {url}: {SECRET} and secret", url)
        == "cannot open slack://...: ... and ..."
    )


def test_logged_settings_do_not_show_the_urls() -> None:
    for value in (["slack://a/b'c/d", f'mailto://[::1]/"{SECRET}'], f"tgram://{SECRET}", ("slack://a",), []):
        record = logging.LogRecord(
            "scrapy", logging.INFO, "", 0, "Overridden settings:\n%(settings)s", ({"settings": ""},), None
        )
        record.args = {"settings": {"A": 1, "NOTIFY": value, "Z": [2]}}
        assert hide_in_log(record)
        assert record.getMessage() == "Overridden settings:\n{'A': 1, 'NOTIFY': '...', 'Z': [2]}"


def test_a_wrong_type_is_told_without_the_value() -> None:
    with pytest.raises(ConfigurationError, match="NOTIFY, which holds secrets: it must be a list") as refused:
        read({"NOTIFY": [SECRET.encode()]}, "NOTIFY")
    assert SECRET not in str(refused.value)
