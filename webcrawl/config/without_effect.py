"""Scrapy's settings that have no effect in a crawl of webcrawl, and warnings for users who set them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from webcrawl.config.kinds import Flag
from webcrawl.config.records import read

logger = logging.getLogger(__name__)

_LEAST_PRIORITY = 20
"""The priority of a project's settings in Scrapy; commands and add-ons set defaults with a lower priority."""
_EMPTY: tuple[object, ...] = (None, "", (), [], {})
_GET_RETRY_REQUEST = "`get_retry_request` in callbacks"


class UserSettings(Protocol):
    """The part of Scrapy's settings object that is used here."""

    @property
    def attributes(self) -> Mapping[str, Any]: ...
    def get(self, name: str, default: Any, /) -> Any: ...
    def getpriority(self, name: str, /) -> int | None: ...
    def get_component_priority_dict_with_base(self, name: str, /) -> Mapping[Any, Any]: ...


@dataclass(frozen=True)
class WithoutEffect:
    """What a setting controls in Scrapy, and what happens or should be set here.

    `quiet` is a value without a warning, because it describes what happens in any case. `extension` is an extension of
    Scrapy that is off; if it is on, the setting has its effect. `details` are settings that only refine this setting.
    `except_on` says where this setting does have an effect.
    """

    controls: str
    here: str
    quiet: Any = None
    extension: str = ""
    details: tuple[str, ...] = ()
    except_on: str = ""

    def is_set(self, name: str, settings: UserSettings) -> bool:
        """Whether a project, a spider or the command line sets `name` to a value that has no effect."""
        if (settings.getpriority(name) or 0) < _LEAST_PRIORITY:
            return False
        value = self._converted(_given(name, settings))
        if value == self.quiet or value in _EMPTY:
            return False
        return not (self.extension and _is_enabled(self.extension, settings))

    def _converted(self, value: Any) -> Any:
        """Returns the value as the type of `quiet`, or unchanged if it cannot be converted."""
        try:
            if isinstance(self.quiet, bool):
                return Flag().parse(value)
            return float(value) if isinstance(self.quiet, int | float) else value
        except (TypeError, ValueError):
            return value


WITHOUT_EFFECT = {
    "AUTOTHROTTLE_ENABLED": WithoutEffect(
        "delays that follow the latency of a host",
        "set `POLITENESS_LATENCY_FACTOR` to 1 / `AUTOTHROTTLE_TARGET_CONCURRENCY`",
        quiet=False,
        details=(
            "AUTOTHROTTLE_DEBUG",
            "AUTOTHROTTLE_MAX_DELAY",
            "AUTOTHROTTLE_START_DELAY",
            "AUTOTHROTTLE_TARGET_CONCURRENCY",
        ),
    ),
    "CONCURRENT_REQUESTS_PER_IP": WithoutEffect(
        "the limit of requests to one IP address", "set `CONCURRENT_REQUESTS_PER_DOMAIN`", quiet=0
    ),
    "DNSCACHE_ENABLED": WithoutEffect(
        "whether DNS answers are cached",
        "answers are cached for their TTL",
        quiet=True,
    ),
    "DNSCACHE_SIZE": WithoutEffect(
        "the size of the DNS cache", "the size is fixed, and answers are cached for their TTL", quiet=10_000
    ),
    "DNS_RESOLVER": WithoutEffect(
        "the class that resolves names",
        "the address guard resolves names; `DNS_SERVERS` sets the servers",
        quiet="scrapy.resolver.CachingThreadedResolver",
    ),
    "DOWNLOADER_CLIENTCONTEXTFACTORY": WithoutEffect(
        "the class that creates TLS contexts",
        "set `DOWNLOAD_VERIFY_CERTIFICATES`, `DOWNLOAD_TLS_MIN_VERSION` or `DOWNLOADER_CLIENT_TLS_CIPHERS`",
        quiet="SENTINEL",
    ),
    "DOWNLOADER_CLIENT_TLS_METHOD": WithoutEffect(
        "the version of TLS", "set `DOWNLOAD_TLS_MIN_VERSION` and `DOWNLOAD_TLS_MAX_VERSION`", quiet="TLS"
    ),
    "DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING": WithoutEffect(
        "a log of TLS connections", "`response.certificate` has the certificate", quiet=False
    ),
    "DOWNLOAD_DELAY_JITTER": WithoutEffect(
        "delays of random length", "`DOWNLOAD_DELAY` is the least time between two requests", quiet=0
    ),
    "DUPEFILTER_CLASS": WithoutEffect(
        "which requests count as seen",
        "set `URL_IGNORED_PARAMETERS` or `SEEN_SET`, or give requests `dont_filter`",
        quiet="scrapy.dupefilters.RFPDupeFilter",
    ),
    "DUPEFILTER_DEBUG": WithoutEffect(
        "a log of requests that were seen before", "use `scrapy checkurl`", quiet=False
    ),
    "FTP_PASSIVE_MODE": WithoutEffect("passive or active FTP", "FTP is always passive", quiet=True),
    "HTTP2_MAX_FRAME_SIZE": WithoutEffect(
        "the size of HTTP/2 frames", "curl_cffi sets the size", quiet=16384
    ),
    "HTTPX_HTTP2_ENABLED": WithoutEffect(
        "HTTP/2 in the handler for HTTPX", "see the how-to for HTTP/2", quiet=False
    ),
    "JOBDIR": WithoutEffect(
        "the folder that keeps the queue of requests",
        "each crawl resumes; `CRAWL_ID` is its name, and `DATA_DIR` its folder",
        except_on="`spider.state`",
    ),
    "LOGSTATS_INTERVAL": WithoutEffect(
        "the time between two lines of figures in the log",
        'set `PROGRESS = "plain"` and `PROGRESS_INTERVAL`',
        quiet=0,
        extension="scrapy.extensions.logstats.LogStats",
        except_on="the extension `PeriodicLog`",
    ),
    "METAREFRESH_ENABLED": WithoutEffect(
        "whether meta refreshes are followed as redirects",
        "they are links; set `URL_DENY` to exclude some",
        quiet=True,
    ),
    "METAREFRESH_IGNORE_TAGS": WithoutEffect(
        "the tags in which meta refreshes are ignored",
        "meta refreshes are links, not redirects",
        quiet=["noscript"],
    ),
    "METAREFRESH_MAXDELAY": WithoutEffect(
        "the longest delay of a meta refresh that is followed",
        "meta refreshes are links, not redirects",
        quiet=100,
    ),
    "RANDOMIZE_DOWNLOAD_DELAY": WithoutEffect(
        "delays of random length", "`DOWNLOAD_DELAY` is the least time between two requests", quiet=False
    ),
    "REACTOR_THREADPOOL_MAXSIZE": WithoutEffect(
        "the number of the reactor's threads",
        "there is no reactor, unless `TWISTED_REACTOR_ENABLED = True`",
        quiet=10,
        except_on="connections to S3 of feeds and files",
    ),
    "REMOTE_CONTROL_ENABLED": WithoutEffect(
        "a server for commands",
        "use `scrapy pause`, `resume`, `frontier` and `host`",
        quiet=False,
        extension="scrapy.extensions.remote_control.RemoteControl",
        details=(
            "REMOTE_CONTROL_JOBS_DIR",
            "REMOTE_CONTROL_OUTPUT_MAX_BYTES",
            "REMOTE_CONTROL_TIMEOUT_DEFAULT",
            "REMOTE_CONTROL_TIMEOUT_MAX",
            "REMOTE_CONTROL_TRACEBACK_MAX_BYTES",
        ),
    ),
    "REQUEST_FINGERPRINTER_CLASS": WithoutEffect(
        "how requests are compared",
        "set `URL_IGNORED_PARAMETERS`, or give requests `dont_filter`",
        quiet="scrapy.utils.request.RequestFingerprinter",
        except_on="the HTTP cache and `FilesPipeline`",
    ),
    "RETRY_ENABLED": WithoutEffect(
        "whether failed requests are retried",
        "set `FRONTIER_MAX_ATTEMPTS = 1` to turn retries off",
        quiet=True,
    ),
    "RETRY_EXCEPTIONS": WithoutEffect(
        "the exceptions after which requests are retried",
        "every failed request is retried; to prevent it, set `dont_retry` in its `meta`",
    ),
    "RETRY_GIVE_UP_LOG_LEVEL": WithoutEffect(
        "the log level for requests that are given up",
        "set `give_up_log_level` in the `meta` of requests; `scrapy stuck` lists given-up URLs",
        quiet="ERROR",
        except_on=_GET_RETRY_REQUEST,
    ),
    "RETRY_PRIORITY_ADJUST": WithoutEffect(
        "the priority of retries",
        "a retry keeps its priority, and waits for `FRONTIER_RETRY_DELAY`",
        quiet=-1,
        except_on=_GET_RETRY_REQUEST,
    ),
    "RETRY_TIMES": WithoutEffect(
        "the number of retries",
        "set `FRONTIER_MAX_ATTEMPTS`, which counts the first attempt too",
        except_on=_GET_RETRY_REQUEST,
    ),
    "ROBOTSTXT_PARSER": WithoutEffect(
        "the parser of robots.txt",
        "robots.txt is parsed as RFC 9309 says",
        quiet="scrapy.robotstxt.ProtegoRobotParser",
    ),
    "SCHEDULER_DEBUG": WithoutEffect(
        "a log of requests that cannot be stored", "they are always logged", quiet=False
    ),
    "SCHEDULER_DISK_QUEUE": WithoutEffect(
        "the order of requests", "set `FRONTIER_ORDER`", quiet="scrapy.squeues.PickleFifoDiskQueue"
    ),
    "SCHEDULER_MEMORY_QUEUE": WithoutEffect(
        "the order of requests", "set `FRONTIER_ORDER`", quiet="scrapy.squeues.FifoMemoryQueue"
    ),
    "SCHEDULER_PRIORITY_QUEUE": WithoutEffect(
        "the order of requests",
        "hosts take turns; `FRONTIER_ORDER` sets the order of a host's URLs",
        quiet="scrapy.pqueues.DownloaderAwarePriorityQueue",
    ),
    "SCHEDULER_QUEUE_CLASS": WithoutEffect("the order of requests (scrapy-redis)", "set `FRONTIER_ORDER`"),
    "SCHEDULER_SERIALIZER": WithoutEffect(
        "the format of stored requests (scrapy-redis)", "requests are stored as MessagePack"
    ),
    "SCHEDULER_START_DISK_QUEUE": WithoutEffect(
        "the order of start requests", "set `FRONTIER_ORDER`", quiet="scrapy.squeues.PickleFifoDiskQueue"
    ),
    "SCHEDULER_START_MEMORY_QUEUE": WithoutEffect(
        "the order of start requests", "set `FRONTIER_ORDER`", quiet="scrapy.squeues.FifoMemoryQueue"
    ),
    "TELNETCONSOLE_ENABLED": WithoutEffect(
        "the telnet console",
        "use `scrapy pause`, `resume`, `frontier` and `host`",
        quiet=False,
        extension="scrapy.extensions.telnet.TelnetConsole",
        details=(
            "TELNETCONSOLE_HOST",
            "TELNETCONSOLE_PASSWORD",
            "TELNETCONSOLE_PORT",
            "TELNETCONSOLE_USERNAME",
        ),
    ),
    "TWISTED_DNS_RESOLVER": WithoutEffect(
        "the class that resolves names",
        "the address guard resolves names; `DNS_SERVERS` sets the servers",
        quiet="scrapy.resolver.CachingThreadedResolver",
    ),
    "TWISTED_REACTOR": WithoutEffect(
        "the class of the reactor",
        "there is no reactor; set `TWISTED_REACTOR_ENABLED = True` too",
        quiet="twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    ),
}
"""docs/reference/scrapy-here.md has the same table."""


def warn_without_effect(settings: UserSettings) -> None:
    """Logs a warning for each setting of the table that a project, a spider or the command line sets."""
    for name, setting in WITHOUT_EFFECT.items():
        if setting.is_set(name, settings) and not _is_met(name, settings):
            logger.warning(
                "%s = %r has no effect%s. In Scrapy, it controls %s. Here, %s.",
                name,
                _given(name, settings),
                f", except for {setting.except_on}".replace("`", "") if setting.except_on else "",
                setting.controls,
                setting.here.replace("`", ""),
            )


def _is_met(name: str, settings: UserSettings) -> bool:
    """Whether another setting has the effect of this setting, or the same value."""
    match name:
        case "RETRY_ENABLED":
            return bool(read(settings, "FRONTIER_MAX_ATTEMPTS") == 1)
        case "RETRY_TIMES":
            return bool(str(_given(name, settings)) == str(read(settings, "FRONTIER_MAX_ATTEMPTS") - 1))
        case "TWISTED_REACTOR" | "REACTOR_THREADPOOL_MAXSIZE":
            return bool(Flag().parse(settings.get("TWISTED_REACTOR_ENABLED", False)))
    return False


def _given(name: str, settings: UserSettings) -> Any:
    """Returns the value as it was set; `settings.get` would warn that some of the names are deprecated."""
    return settings.attributes[name].value


def _is_enabled(extension: str, settings: UserSettings) -> bool:
    components = settings.get_component_priority_dict_with_base("EXTENSIONS")
    paths = (
        kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}" for kind in components
    )
    return extension in paths
