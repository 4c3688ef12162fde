"""Sends notices of the outbox to the Apprise URLs of NOTIFY."""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

from webcrawl.alarms.outbox import Notice, Outbox, utc_now
from webcrawl.config.libraries import optional
from webcrawl.errors import ConfigurationError, brief

logger = logging.getLogger(__name__)

_LOGGER, _SILENCE = logging.getLogger("apprise"), logging.NullHandler()
_ID_LENGTH = 12
_SECRET_LENGTH = 4
_SIGNS = re.compile(r"[/:@?&=#;,]+")


class Targets:
    """The targets of Apprise URLs. The ID of a target is its scheme and a hash of the URL: "mailtos-9f86d081884c".

    Raises ConfigurationError for a URL that Apprise cannot use, LibraryMissing without Apprise. Error messages never
    contain more of a URL than its scheme and host.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        self._apprise: Any = optional("NOTIFY", "apprise", "alarms", "apprise")
        # the messages of Apprise and its plugins quote URLs
        _LOGGER.propagate = False
        _LOGGER.addHandler(_SILENCE)
        logging.getLogger("urllib3").setLevel(logging.INFO)
        self._asset = self._apprise.AppriseAsset(
            app_id="webcrawl", app_desc="webcrawl", app_url="", async_mode=False, secure_logging=True
        )
        self._urls: dict[str, str] = {}
        for number, url in enumerate(urls, 1):
            self._plugin(url, f"NOTIFY, entry {number}")
            self._urls[id_of(url)] = url

    @property
    def ids(self) -> list[str]:
        """The IDs of all targets."""
        return list(self._urls)

    def send(self, target: str, notice: Notice) -> str:
        """Sends a notice to a target and waits until it is sent; returns the reason of a failure, or ""."""
        url = self._urls[target]
        with _warnings() as warnings:
            try:
                plugin = self._plugin(url, target)
                body = f"{notice.text}\n\n{notice.link}" if notice.link else notice.text
                # as text: strings from hosts and pages must not become markup
                words = {"title": notice.title, "body": body, "body_format": "text"}
                if plugin.notify(**words, notify_type=_type(notice.kind)):
                    return ""
            except Exception as error:  # a plugin may raise any exception of its libraries
                warnings.append(f"{type(error).__name__}: {error}")
        why = "; ".join(dict.fromkeys(warnings)) or "it was refused"
        return f"{shown(url)}: {brief(without_secrets(why, url))}"

    def _plugin(self, url: str, name: str) -> Any:
        """Returns a new Apprise plugin for a URL: several threads may not use the same plugin."""
        with _warnings() as warnings:
            try:
                plugin = self._apprise.Apprise.instantiate(url, asset=self._asset)
            except Exception as error:
                warnings.append(str(error))
                plugin = None
        if plugin is None:
            why = brief(without_secrets("; ".join(warnings), url)) or "no service has such a URL"
            raise ConfigurationError(f"{name} ({shown(url)}): Apprise cannot use it: {why}")
        return plugin


def id_of(url: str) -> str:
    """Returns the ID of the target with this URL. The ID does not reveal the URL."""
    digest = hashlib.sha256(url.encode()).hexdigest()
    return f"{_scheme(url)}-{digest[:_ID_LENGTH]}"


def shown(url: str) -> str:
    """Returns a URL for messages: its scheme, and its host if the host is not a secret."""
    scheme = _scheme(url)
    host = _host(url) if scheme in _WITH_HOST else ""
    return f"{scheme}://{host or '...'}"


def without_secrets(text: str, url: str) -> str:
    """Returns a message of Apprise without the parts of a URL: tokens, passwords, addresses."""
    host = _host(url) if _scheme(url) in _WITH_HOST else ""
    rest = url.partition("://")[2] or url
    parts = {part for words in (rest, unquote(rest)) for part in _SIGNS.split(words)}
    text = text.replace(url, shown(url))
    for part in sorted(parts - {host}, key=len, reverse=True):
        if len(part) >= _SECRET_LENGTH:
            text = text.replace(part, "...")
    return text


_WITH_HOST = frozenset(
    {"json", "jsons", "xml", "xmls", "form", "forms", "mailto", "mailtos", "apprise", "apprises"}
)
"""The schemes of URLs whose host is the name of a server; the host of other schemes is often a token."""


def _scheme(url: str) -> str:
    scheme, mark, _ = url.lower().partition("://")
    return scheme if mark and re.fullmatch(r"[a-z][a-z0-9+.-]{0,30}", scheme) else "?"


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _type(kind: str) -> str:
    """Returns Apprise's type of a notification, which determines its colour or icon."""
    if kind in ("FINISHED", "TEST"):
        return "info"
    return "failure" if kind in ("WORKER", "ENGINE", "STALLED", "FAILED") else "warning"


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collects the log messages of Apprise in this thread, because Apprise returns no reasons."""
    messages: list[str] = []
    collector = _Collector(messages)
    _LOGGER.addHandler(collector)
    try:
        yield messages
    finally:
        _LOGGER.removeHandler(collector)


class _Collector(logging.Handler):
    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self._messages.append(record.getMessage())


def deliver(
    outbox: Outbox,
    targets: Targets,
    *,
    clock: Callable[[], datetime] = utc_now,
    is_over: Callable[[], bool] = lambda: False,
) -> int:
    """Sends each due notice to the targets that have not got it; returns the number of deliveries.

    A failed notice is sent again later. Blocks; ends early once `is_over` returns True. If the process dies before it
    records that a target got a notice, the target gets the notice twice. Raises the exceptions of `Outbox`.
    """
    count, up = 0, set(targets.ids)
    # one at a time, because a slow target may outlast the claims of several notices
    while up and not is_over() and (claimed := outbox.due(clock(), up, limit=1)):
        stored, errors = claimed[0], []
        for target in up.intersection(stored.targets or ()):
            if error := targets.send(target, stored.notice):
                errors.append(error)
                # other notices would wait for its timeout too; they stay due for the next call
                up.discard(target)
            else:
                outbox.sent(stored.id, target, clock())
                count += 1
        if errors:
            reason = "; ".join(errors)
            logger.warning("A notification could not be sent, and is tried again later: %s", reason)
            outbox.failed(stored.id, reason, clock())
    return count
