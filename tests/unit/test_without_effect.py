"""Scrapy's settings without effect are named when they are set; the table has all of them."""

from __future__ import annotations

import importlib
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
import scrapy
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import Settings, default_settings

import webcrawl
from tests.crawls import CHECKOUT
from webcrawl.config import DECLARED, parts
from webcrawl.config.without_effect import WITHOUT_EFFECT
from webcrawl.temporary.isolation import isolate

PAGE = CHECKOUT / "docs" / "reference" / "scrapy-here.md"
ASKING: dict[str, Any] = {
    "AUTOTHROTTLE_ENABLED": True,
    "CONCURRENT_REQUESTS_PER_IP": 4,
    "DNSCACHE_ENABLED": False,
    "DNSCACHE_SIZE": 5,
    "DNS_RESOLVER": "my.Resolver",
    "DOWNLOADER_CLIENTCONTEXTFACTORY": "my.Factory",
    "DOWNLOADER_CLIENT_TLS_METHOD": "TLSv1.2",
    "DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING": True,
    "DOWNLOAD_DELAY_JITTER": 0.3,
    "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    "DUPEFILTER_DEBUG": True,
    "FTP_PASSIVE_MODE": False,
    "HTTP2_MAX_FRAME_SIZE": 32768,
    "HTTPX_HTTP2_ENABLED": True,
    "JOBDIR": "jobs/1",
    "LOGSTATS_INTERVAL": 10,
    "METAREFRESH_ENABLED": False,
    "METAREFRESH_IGNORE_TAGS": ["script"],
    "METAREFRESH_MAXDELAY": 3,
    "RANDOMIZE_DOWNLOAD_DELAY": True,
    "REACTOR_THREADPOOL_MAXSIZE": 30,
    "REMOTE_CONTROL_ENABLED": True,
    "REQUEST_FINGERPRINTER_CLASS": "my.Fingerprinter",
    "RETRY_ENABLED": False,
    "RETRY_EXCEPTIONS": ["builtins.OSError"],
    "RETRY_GIVE_UP_LOG_LEVEL": "INFO",
    "RETRY_PRIORITY_ADJUST": 2,
    "RETRY_TIMES": 0,
    "ROBOTSTXT_PARSER": "my.Parser",
    "SCHEDULER_DEBUG": True,
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleLifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.LifoMemoryQueue",
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
    "SCHEDULER_QUEUE_CLASS": "scrapy_redis.queue.LifoQueue",
    "SCHEDULER_SERIALIZER": "json",
    "SCHEDULER_START_DISK_QUEUE": "my.Queue",
    "SCHEDULER_START_MEMORY_QUEUE": "my.Queue",
    "TELNETCONSOLE_ENABLED": True,
    "TWISTED_DNS_RESOLVER": "my.Resolver",
    "TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor",
}
"""A value of each setting of the table that does not happen here."""
REPLACED = (
    "core/downloader",
    "core/_http2",
    "core/scheduler.py",
    "dupefilters.py",
    "extensions/throttle.py",
    "extensions/logstats.py",
    "mail.py",
    "pqueues.py",
    "resolver.py",
    "robotstxt.py",
    "settings/",
    "squeues.py",
    "utils/_remote_control.py",
    "utils/test.py",
)
"""Modules of Scrapy whose code does not run in a crawl; mail refuses to run without the reactor."""


def warnings(caplog: pytest.LogCaptureFixture, source: str, **given: Any) -> list[str]:
    """The warnings at the start of a crawl whose `source` sets these."""
    caplog.clear()
    settings = Settings({"ADDONS": {"webcrawl.addon.WebcrawlAddon": 100}})
    if source == "cmdline":
        given = {
            name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()
        }
        given = {
            name: value.title() if value in ("true", "false") else value for name, value in given.items()
        }
    kind = type(
        "Asking", (Spider,), {"name": "asking", "custom_settings": given if source == "spider" else {}}
    )
    if source in ("project", "cmdline"):
        settings.setdict(given, priority=source)
    crawler = Crawler(kind, settings)
    crawler.crawling = True
    with caplog.at_level(logging.WARNING, "webcrawl"):
        crawler.addons.load_settings(crawler.settings)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("source", ["project", "spider", "cmdline"])
def test_a_setting_without_effect_is_named_once(caplog: pytest.LogCaptureFixture, source: str) -> None:
    said = warnings(caplog, source, **ASKING)
    assert [line.partition(" ")[0] for line in said] == list(WITHOUT_EFFECT)
    for line, setting in zip(said, WITHOUT_EFFECT.values(), strict=True):
        assert " has no effect" in line and f" it controls {setting.controls}. " in line
        assert line.endswith(f" Here, {setting.here.replace('`', '')}.")


def test_a_value_that_describes_what_happens_anyway_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings(caplog, "project") == []
    usual = {name: setting.quiet for name, setting in WITHOUT_EFFECT.items() if name != "RETRY_TIMES"}
    assert warnings(caplog, "project", **usual, RETRY_TIMES=4) == []
    met = {"RETRY_TIMES": 9, "FRONTIER_MAX_ATTEMPTS": 10, "TWISTED_REACTOR_ENABLED": True}
    assert warnings(caplog, "spider", **met, TWISTED_REACTOR=ASKING["TWISTED_REACTOR"]) == []
    assert warnings(caplog, "cmdline", RETRY_ENABLED=False, FRONTIER_MAX_ATTEMPTS=1) == []
    console = "scrapy.extensions.telnet.TelnetConsole"
    assert warnings(caplog, "spider", TELNETCONSOLE_ENABLED=True, EXTENSIONS={console: 0}) == []


def test_a_temporary_crawl_warns_of_nothing(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    settings = Settings({"ADDONS": {"webcrawl.addon.WebcrawlAddon": 100}, **ASKING})
    isolate(settings, tmp_path)
    crawler = Crawler(Spider, settings)
    crawler.crawling = True
    with caplog.at_level(logging.WARNING, "webcrawl"):
        crawler.addons.load_settings(crawler.settings)
    assert not caplog.records


def test_the_page_lists_the_table() -> None:
    section = PAGE.read_text().partition("## Settings without effect")[2]
    rows = re.findall(r"^\| `([A-Z0-9_]+)` \| (.+) \| (.+) \|$", section, re.MULTILINE)
    listed = {name: (controls, here) for name, controls, here in rows}
    assert list(listed) == list(WITHOUT_EFFECT)
    for name, setting in WITHOUT_EFFECT.items():
        besides = f" (except for {setting.except_on})" if setting.except_on else ""
        assert listed[name] == (setting.controls + besides, setting.here), name


def test_each_setting_of_scrapy_is_read_or_in_the_table() -> None:
    """A setting counts as read if code that runs in a crawl or a command names it."""
    details = {name for setting in WITHOUT_EFFECT.values() for name in setting.details}
    ours = {*DECLARED, *parts.VALUES, *parts.BASES, *WITHOUT_EFFECT, *details}
    off = {
        importlib.import_module(path.rpartition(".")[0]).__file__
        for components in parts.BASES.values()
        for path, place in components.items()
        if place is None and "redirect" not in path
    }
    text = [
        source(path) for path in Path(webcrawl.__path__[0]).rglob("*.py") if path.stem != "without_effect"
    ]
    home = Path(scrapy.__path__[0])
    for path in home.rglob("*.py"):
        if str(path) not in off and not path.relative_to(home).as_posix().startswith(REPLACED):
            text.append(source(path))
    read = set(re.findall(r"[\"']([A-Z][A-Z0-9_]+)[\"']", "\n".join(text)))
    documented = {name.removesuffix("_BASE") for name in default_settings.__all__}
    mail = {name for name in documented if name.startswith("MAIL_")}
    assert documented - mail - read - ours == set()


def source(path: Path) -> str:
    return path.read_text(encoding="utf-8")
