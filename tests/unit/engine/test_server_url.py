"""REDIS_URL: one server, several nodes of a cluster, or sentinels. Wrong parts are named."""

from __future__ import annotations

import logging
import pprint
import re

import pytest

from tests.cases import cases
from webcrawl.config.passwords import hide_in_log, without_password
from webcrawl.engine.server_url import ServerURL
from webcrawl.errors import ConfigurationError


@cases(
    ("url", "expected"),
    [
        ("redis://a", ServerURL((("a", 6379),), {})),
        ("redis://a:1/", ServerURL((("a", 1),), {})),
        ("redis://a,b:7001,[::1]:7002/0", ServerURL((("a", 6379), ("b", 7001), ("::1", 7002)), {"db": 0})),
        (
            "rediss://user:p%40ss@a:1,b:2/3?socket_timeout=5",
            ServerURL(
                (("a", 1), ("b", 2)),
                {"username": "user", "password": "p@ss", "db": 3, "socket_timeout": 5.0},
                True,
            ),
        ),
        ("redis://:a,b@c:1", ServerURL((("c", 1),), {"password": "a,b"})),
        ("redis://:a@b@c:1", ServerURL((("c", 1),), {"password": "a@b"})),
        ("redis://a?db=2", ServerURL((("a", 6379),), {"db": 2})),
        ("unix:///run/my%20socket?db=1", ServerURL((), {"path": "/run/my socket", "db": 1})),
        (
            "redis+sentinel://:secret@a,b:2/my-name/4?sentinel_password=other",
            ServerURL(
                (("a", 26379), ("b", 2)),
                {"password": "secret", "db": 4},
                False,
                "my-name",
                {"password": "other"},
            ),
        ),
        ("rediss+sentinel://a/m", ServerURL((("a", 26379),), {}, True, "m", {})),
        ("sentinel://a:1/m/0", ServerURL((("a", 1),), {"db": 0}, False, "m", {})),
    ],
)
def test_the_parts_of_a_url_are_read(url: str, expected: ServerURL) -> None:
    assert ServerURL.parse(url) == expected


@cases(
    ("url", "wrong"),
    [
        ("ftp://a", "the scheme must be one of unix, redis, rediss"),
        ("a:6379", "not 'a:6379'"),
        ("redis://", "a host is empty"),
        ("redis://a,,b", "a host is empty"),
        ("redis://a,:7000", "a host is missing before ':7000'"),
        ("redis://a:x,b", "the port 'x' of a is not a number from 1 to 65535"),
        ("redis://a,b:65536", "the port '65536' of b"),
        ("redis://a:1;b:2", "the port '1;b:2' of a"),
        ("redis://a:1/first", "the database 'first' is not a number"),
        ("redis://a/0/1", "the database '0/1' is not a number"),
        ("redis://u:p@a:1,u:p@b:2", "name user and password once"),
        ("redis://a?socket_timeout=x", "Invalid value for 'socket_timeout'"),
        ("sentinel://a,b", "name the primary that the sentinels watch"),
        ("redis+sentinel://a,b/m/x", "the database 'x' is not a number"),
    ],
)
def test_the_wrong_part_of_a_url_is_named(url: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=f"REDIS_URL .*{re.escape(wrong)}"):
        ServerURL.parse(url)


def test_messages_have_no_passwords() -> None:
    url = "redis+sentinel://u:secret@a,b/m?sentinel_username=x&sentinel_password=secret&password=secret"
    assert (
        without_password(url)
        == "redis+sentinel://...@a,b/m?sentinel_username=x&sentinel_password=...&password=..."
    )
    wrong = [
        url.replace("/m", ""),
        "redis://:se/secret@a",
        "redis://:secret?secret@a:1",
        "redis://:secret#secret@a",
        ":secret@a:1",
        "redis://a:b?password=secret&p%61ssword=secret&ssl_password=secret",
    ]
    for one in wrong:
        with pytest.raises(ConfigurationError) as caught:
            ServerURL.parse(one)
        assert "secret" not in str(caught.value) and "REDIS_URL" in str(caught.value)


def test_logged_settings_have_no_passwords() -> None:
    settings = {
        "REDIS_URL": "redis://:hidden@a/0?password=hidden",
        "METADATA_URI": "postgresql://u@db/x?sslpassword=hidden",
        "PROXIES": ["http://me:hidden@proxy.test:1", "http://other.test:2"],
        "REDIS_PARAMS": {"password": "hid'den", "db": 1},
        "FTP_PASSWORD": 'hid"den',
        "USER_AGENT": "bot (+https://example.org/bot)",
    }
    text = "Overridden settings:\n%(settings)s"
    arguments = ({"settings": pprint.pformat(settings)},)
    record = logging.LogRecord("scrapy.crawler", logging.INFO, "", 1, text, arguments, None)
    assert hide_in_log(record)
    shown = record.getMessage()
    assert "hid" not in shown
    for kept in (
        "redis://...@a/0",
        "db/x",
        "proxy.test:1",
        "http://other.test:2",
        "+https://example.org/bot",
    ):
        assert kept in shown
