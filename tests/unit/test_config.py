"""Settings: the engine's address by the rules of scrapy-redis, the spill location, and validation."""

from __future__ import annotations

import resource
import subprocess
import sys
from typing import Any

import pytest
import redis
import scrapy_redis.defaults
from hypothesis import assume, given, strategies as st
from scrapy.settings import Settings, default_settings
from scrapy_redis.connection import get_redis_from_settings

from tests.cases import cases
from webcrawl.config import (
    DECLARED,
    DEFAULTS,
    EngineConfig,
    FrontierConfig,
    PolitenessConfig,
    StoreConfig,
    check,
    politeness,
    slow_requests,
    spill_uri,
)
from webcrawl.config.kinds import listed
from webcrawl.config.start import FAMILIES, warn_of_mistakes
from webcrawl.errors import ConfigurationError


def place(client: redis.Redis) -> list[str]:
    """The socket path, host, port and database of a client."""
    defaults = {"path": "", "host": "localhost", "port": 6379, "db": 0}
    known = client.connection_pool.connection_kwargs
    return [str(known.get(part) or default) for part, default in defaults.items()]


@pytest.mark.filterwarnings("ignore:Call to '__init__'")
@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({"REDIS_HOST": "engine"}, "redis://engine:6379/0"),
        ({"REDIS_PORT": "7000"}, "redis://localhost:7000/0"),
        ({"REDIS_DB": 2}, "redis://localhost:6379/2"),
        ({"REDIS_HOST": "::1", "REDIS_PORT": 7000, "REDIS_DB": 1}, "redis://[::1]:7000/1"),
        ({"REDIS_PARAMS": {"host": "engine", "port": 7000}}, "redis://engine:7000/0"),
        ({"REDIS_PARAMS": {"host": "engine", "ssl": True}}, "rediss://engine:6379/0"),
        ({"REDIS_PARAMS": {"host": "one"}, "REDIS_HOST": "two"}, "redis://two:6379/0"),
        ({"REDIS_PARAMS": {"unix_socket_path": "/run/a b.sock", "db": 3}}, "unix:///run/a%20b.sock?db=3"),
        ({"REDIS_PARAMS": {"url": "redis://engine/4"}}, "redis://engine/4"),
        ({"REDIS_URL": "redis://engine/5", "REDIS_HOST": "other"}, "redis://engine/5"),
    ],
)
def test_engine_url_follows_from_the_redis_settings(settings: dict[str, Any], url: str) -> None:
    config = EngineConfig.from_settings(Settings(settings))
    assert config.url == url
    # a RedisSpider with the same settings connects to the same server
    assert place(get_redis_from_settings(Settings(settings))) == place(redis.Redis.from_url(url))


@pytest.mark.parametrize(
    "settings", [{}, {"REDIS_PARAMS": {"password": "secret", "socket_timeout": 9, "ssl": False}}]
)
def test_embedded_server_is_used_without_an_address(settings: dict[str, Any]) -> None:
    assert EngineConfig.from_settings(Settings(settings)).url is None


def test_other_redis_params_are_kept() -> None:
    parameters = {"host": "engine", "password": "secret", "socket_timeout": 9}
    config = EngineConfig.from_settings(Settings({"REDIS_PARAMS": parameters}))
    assert config.parameters == {"password": "secret", "socket_timeout": 9}


@pytest.mark.parametrize("name", ["REDIS_PORT", "REDIS_DB"])
def test_invalid_port_or_database_names_the_setting(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        EngineConfig.from_settings(Settings({name: "many"}))


def spill_uri_of(settings: dict[str, Any]) -> str | None:
    given = Settings({"STORE_URI": "file:///pages", "DATA_DIR": "/data", **settings})
    return spill_uri(given, EngineConfig.from_settings(given), StoreConfig.from_settings(given))


@cases(
    ("settings", "uri"),
    [
        ({}, "file:///data/frontier"),
        ({"REDIS_URL": "redis://engine"}, None),
        ({"REDIS_URL": "redis://engine", "STORE_URI": "s3://pages/here/"}, "s3://pages/here/frontier"),
        ({"STORE_URI": "s3://pages"}, "file:///data/frontier"),
        ({"REDIS_URL": "redis://engine", "FRONTIER_SPILL_URI": "file:///mnt/a%20b"}, "file:///mnt/a%20b"),
        ({"FRONTIER_SPILL_URI": "s3://queues"}, "s3://queues"),
    ],
)
def test_default_spill_uri_is_reachable_by_all_workers(settings: dict[str, Any], uri: str | None) -> None:
    assert spill_uri_of(settings) == uri


@cases("uri", ["/folder", "file://folder", "file://host/folder", "s3:///prefix", "ftp://host/x"])
def test_invalid_spill_uri_names_the_setting(uri: str) -> None:
    with pytest.raises(ConfigurationError, match="FRONTIER_SPILL_URI"):
        spill_uri_of({"FRONTIER_SPILL_URI": uri})


@pytest.mark.parametrize(
    ("name", "value"), [("FRONTIER_HOT_URLS", 7), ("FRONTIER_HOT_URLS", -1), ("FRONTIER_ORDER", "sideways")]
)
def test_invalid_queue_length_or_order_names_the_setting(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name):
        FrontierConfig.from_settings(Settings({name: value}), "broad")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("POLITENESS_BACKOF", "POLITENESS_BACKOFF"), ("FRONTIER_MAX_ATEMPTS", "FRONTIER_MAX_ATTEMPTS")],
)
def test_misspelt_setting_raises_with_a_suggestion(name: str, meant: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{name} .* {meant}\?$"):
        check(Settings({name: 1}))


def test_settings_of_other_packages_are_not_misspellings() -> None:
    others = [name for name in (*vars(default_settings), *vars(scrapy_redis.defaults)) if name.isupper()]
    assert not [name for name in others if name.startswith(FAMILIES)]
    check(Settings({"URL_LAST_YEAR": 2020, "CRAWL_NOTES": "ours", "REDIS_URLS": []}))


@cases(
    ("concurrency", "delay", "hosts", "urls"),
    [(64, 1, 256, 20), (16, 0, 256, 20), (200, 0.5, 800, 20), (64, 5, 1280, 4), (64, 3600, 2560, 2)],
)
def test_lease_defaults_follow_from_concurrency_and_delay(
    concurrency: int, delay: float, hosts: int, urls: int
) -> None:
    given = Settings({"CONCURRENT_REQUESTS": concurrency, "DOWNLOAD_DELAY": delay})
    config = FrontierConfig.from_settings(given, "broad")
    assert (config.lease_hosts, config.lease_urls) == (hosts, urls)


def test_connect_backoff_follows_from_the_backoff() -> None:
    assert politeness(Settings({"POLITENESS_BACKOFF": 60})).connect_backoff == 10
    assert PolitenessConfig().connect_backoff == 10


def test_frontier_does_not_persist_without_our_default_settings() -> None:
    assert not FrontierConfig.from_settings(Settings(), "broad").persist
    assert FrontierConfig.from_settings(Settings(DEFAULTS), "broad").persist


def test_words_of_text_are_checked_and_put_in_order() -> None:
    setting = DECLARED["TEXT"]
    assert setting.parse(["wet", "wet"]) == setting.parse(" wet ,") == "wet"
    assert setting.parse("parquet,wet") == setting.parse(["wet", "parquet"]) == "wet,parquet"
    assert setting.parse("") == setting.parse([]) == ""
    with pytest.raises(
        ConfigurationError, match="TEXT must be some of wet.*, separated by commas, not 'pdf'"
    ):
        setting.parse("pdf")


@cases(
    ("given", "slow"),
    [
        ({}, 4096),
        ({"CONCURRENT_REQUESTS": 8}, 0),
        ({"CONCURRENT_REQUESTS": 0}, 0),
        ({"CONCURRENT_REQUESTS": 8, "CONCURRENT_SLOW_REQUESTS": 3}, 3),
        ({"CONCURRENT_SLOW_REQUESTS": 0}, 0),
        ({"CONCURRENT_REQUESTS": DEFAULTS["CONCURRENT_REQUESTS"]}, 4096),
        ({"CONCURRENT_REQUESTS": 500}, 0),
    ],
)
def test_a_limit_of_requests_that_was_chosen_is_exact(given: dict[str, int], slow: int) -> None:
    assert slow_requests(Settings({**DEFAULTS, **given})) == slow


def test_a_crawl_may_open_as_many_files_as_the_hard_limit_allows() -> None:
    script = (
        "import resource; from webcrawl.commands.crawl import allow_open_files;"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 1_000)); allow_open_files();"
        "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout == "1000 1000\n"


def test_slow_requests_leave_half_of_the_open_files() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (600, before[1]))
    try:
        assert slow_requests(Settings(DEFAULTS)) == 300
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@cases(
    ("text", "entries"),
    [
        ("a,b", ["a", "b"]),
        (" /tag/ , ,/page/$,", ["/tag/", "/page/$"]),
        ("/[0-9]{1,3}/,(a,b),[,]", ["/[0-9]{1,3}/", "(a,b)", "[,]"]),
        (r"\(a,b\),[^](],x", [r"\(a", r"b\)", "[^](]", "x"]),
        ("a(b,c", ["a(b", "c"]),
        ('["a,b", "c"]', ["a,b", "c"]),
        ("[abc],d", ["[abc]", "d"]),
        ("[1, 2]", ["[1, 2]"]),
        ("", []),
        ("http://[::1]:80/,http://b", ["http://[::1]:80/", "http://b"]),
    ],
)
def test_text_is_a_list_by_the_same_rule_for_all_settings(text: str, entries: list[str]) -> None:
    assert listed(text) == entries
    assert DECLARED["ALLOWED_DOMAINS"].parse(text) == entries
    if "a(b" not in text:
        assert DECLARED["URL_DENY"].parse(text) == entries


@given(st.text(alphabet=',()[]{}\\ab"', max_size=40))
def test_a_list_loses_nothing_but_commas(text: str) -> None:
    assume(not text.startswith("["))  # it may be JSON
    entries = listed(text)
    assert all(entries)
    assert "".join(entries).replace(",", "") == text.replace(",", "")


def test_what_can_only_be_a_mistake_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_mistakes(
        Settings({"URL_DENY": ["a b", "", r"a\ b[ ]", "a,b"], "URL_ALLOW": "a, b", "DEPTH_LIMIT": "x"})
    )
    assert caplog.messages == [
        "URL_DENY, entry 1: 'a b' has white space, which no URL has.",
        "URL_DENY, entry 2 is empty and matches every URL.",
    ]


def test_a_setting_without_the_setting_that_it_needs_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    given = {"METADATA_PARTITIONS": 16, "RECRAWL_MAX_AGE": "30d", "RECRAWL_MIN_INTERVAL": 3600.0}
    warn_of_mistakes(Settings(given))
    assert caplog.messages == [
        "METADATA_PARTITIONS = 16 has no effect with SQLite, which has no partitions: set METADATA_URI to a "
        "PostgreSQL database.",
        "RECRAWL_MAX_AGE = 2592000.0 has no effect without RECRAWL = True.",
    ]
    caplog.clear()
    warn_of_mistakes(
        Settings(given | {"RECRAWL": True, "METADATA_URI": "postgresql+psycopg://db.example.com/crawl"})
    )
    warn_of_mistakes(Settings({"RECRAWL_WEIGHTS": "", "METADATA_PARTITIONS": 0}))
    assert caplog.messages == []


def test_levels_by_learned_weights_leave_lower_levels_a_smaller_share() -> None:
    usual, learned = (FrontierConfig.from_settings(Settings({"MINED": on}), "broad") for on in (False, True))
    assert 0 < learned.low_share < usual.low_share
