"""Scrapy's settings that have no effect in a crawl of webcrawl, and the warnings about those that a user sets."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from webcrawl.config.kinds import Flag
from webcrawl.config.records import read

logger = logging.getLogger(__name__)

_LEAST_PRIORITY = 20
"""That of a project's settings in Scrapy; commands and add-ons set defaults with a lower one."""
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
    """What a setting asks for, and what to set instead.

    `quiet` is the value that asks for nothing: what it says is so in any case. `extension` is one of Scrapy's that is
    off; the setting has its effect if a project puts it back. `details` are settings that mean something only with this
    one, and `except_on` is where this one has an effect.
    """

    asks: str
    instead: str
    quiet: Any = None
    extension: str = ""
    details: tuple[str, ...] = ()
    except_on: str = ""

    def is_asked(self, name: str, settings: UserSettings) -> bool:
        """Whether a project, a spider or the command line sets `name` to something that does not happen."""
        if (settings.getpriority(name) or 0) < _LEAST_PRIORITY:
            return False
        value = self._converted(_given(name, settings))
        if value == self.quiet or value in _EMPTY:
            return False
        return not (self.extension and _is_enabled(self.extension, settings))

    def _converted(self, value: Any) -> Any:
        """The value as the type of `quiet`, or as it is when it cannot be converted."""
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
        "a limit for all hosts at one address", "set `CONCURRENT_REQUESTS_PER_DOMAIN`", quiet=0
    ),
    "DNSCACHE_ENABLED": WithoutEffect(
        "a name to be resolved again for each request",
        "names are cached as long as their records say",
        quiet=True,
    ),
    "DNSCACHE_SIZE": WithoutEffect(
        "another size of the DNS cache", "names are cached as long as their records say", quiet=10_000
    ),
    "DNS_RESOLVER": WithoutEffect(
        "another resolver",
        "set `DNS_SERVERS`; names are resolved by the address guard",
        quiet="scrapy.resolver.CachingThreadedResolver",
    ),
    "DOWNLOADER_CLIENTCONTEXTFACTORY": WithoutEffect(
        "another maker of TLS contexts",
        "set `DOWNLOAD_VERIFY_CERTIFICATES`, `DOWNLOAD_TLS_MIN_VERSION` or `DOWNLOADER_CLIENT_TLS_CIPHERS`",
        quiet="SENTINEL",
    ),
    "DOWNLOADER_CLIENT_TLS_METHOD": WithoutEffect(
        "one version of TLS", "set `DOWNLOAD_TLS_MIN_VERSION` and `DOWNLOAD_TLS_MAX_VERSION`", quiet="TLS"
    ),
    "DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING": WithoutEffect(
        "a log of TLS connections", "`response.certificate` has the certificate", quiet=False
    ),
    "DOWNLOAD_DELAY_JITTER": WithoutEffect(
        "delays of random length", "set `DOWNLOAD_DELAY`, the exact distance of requests", quiet=0
    ),
    "DUPEFILTER_CLASS": WithoutEffect(
        "another test of which requests were seen",
        "set `URL_IGNORED_PARAMETERS` or `SEEN_SET`, or give requests `dont_filter`",
        quiet="scrapy.dupefilters.RFPDupeFilter",
    ),
    "DUPEFILTER_DEBUG": WithoutEffect(
        "a log of the requests that were seen before", "ask `scrapy checkurl`", quiet=False
    ),
    "FTP_PASSIVE_MODE": WithoutEffect(
        "active FTP", "data connections are always opened by the client", quiet=True
    ),
    "HTTP2_MAX_FRAME_SIZE": WithoutEffect(
        "larger frames of HTTP/2", "the library of the handler for HTTP/2 sets it", quiet=16384
    ),
    "HTTPX_HTTP2_ENABLED": WithoutEffect(
        "HTTP/2", "set `DOWNLOAD_HANDLERS` as the how-to for HTTP/2 says", quiet=False
    ),
    "JOBDIR": WithoutEffect(
        "a folder that keeps the queue of requests",
        "each crawl resumes; set `CRAWL_ID` to name it, `DATA_DIR` for its folder",
        except_on="`spider.state`",
    ),
    "LOGSTATS_INTERVAL": WithoutEffect(
        "a line of progress in the log",
        'set `PROGRESS = "plain"` and `PROGRESS_INTERVAL`',
        quiet=0,
        extension="scrapy.extensions.logstats.LogStats",
        except_on="the extension `PeriodicLog`",
    ),
    "METAREFRESH_ENABLED": WithoutEffect(
        "meta refreshes to be ignored",
        "they are no redirects here; `broad` follows them as links, unless `URL_DENY` matches",
        quiet=True,
    ),
    "METAREFRESH_IGNORE_TAGS": WithoutEffect(
        "tags in which a meta refresh is no redirect", "a meta refresh is a link here", quiet=["noscript"]
    ),
    "METAREFRESH_MAXDELAY": WithoutEffect(
        "the delay above which a meta refresh is no redirect", "a meta refresh is a link here", quiet=100
    ),
    "RANDOMIZE_DOWNLOAD_DELAY": WithoutEffect(
        "delays of random length", "set `DOWNLOAD_DELAY`, the exact distance of requests", quiet=False
    ),
    "REACTOR_THREADPOOL_MAXSIZE": WithoutEffect(
        "another number of the reactor's threads",
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
        "another comparison of requests",
        "set `URL_IGNORED_PARAMETERS`, or give requests `dont_filter`",
        quiet="scrapy.utils.request.RequestFingerprinter",
        except_on="the HTTP cache and `FilesPipeline`",
    ),
    "RETRY_ENABLED": WithoutEffect("no retries", "set `FRONTIER_MAX_ATTEMPTS = 1`", quiet=True),
    "RETRY_EXCEPTIONS": WithoutEffect(
        "a choice of failures that are retried", 'set `meta["dont_retry"]` of the requests'
    ),
    "RETRY_GIVE_UP_LOG_LEVEL": WithoutEffect(
        "another level for the log of given-up requests",
        'set `meta["give_up_log_level"]` of the requests; `scrapy deadletters` lists them too',
        quiet="ERROR",
        except_on=_GET_RETRY_REQUEST,
    ),
    "RETRY_PRIORITY_ADJUST": WithoutEffect(
        "another priority of retries",
        "a retry keeps its priority, and waits for `FRONTIER_RETRY_DELAY`",
        quiet=-1,
        except_on=_GET_RETRY_REQUEST,
    ),
    "RETRY_TIMES": WithoutEffect(
        "another number of retries",
        "set `FRONTIER_MAX_ATTEMPTS`, which counts the first attempt too",
        except_on=_GET_RETRY_REQUEST,
    ),
    "ROBOTSTXT_PARSER": WithoutEffect(
        "another parser of robots.txt",
        "robots.txt is read as RFC 9309 says",
        quiet="scrapy.robotstxt.ProtegoRobotParser",
    ),
    "SCHEDULER_DEBUG": WithoutEffect(
        "a log of requests that cannot be stored", "it is always written", quiet=False
    ),
    "SCHEDULER_DISK_QUEUE": WithoutEffect(
        "another order of requests", "set `FRONTIER_ORDER`", quiet="scrapy.squeues.PickleFifoDiskQueue"
    ),
    "SCHEDULER_MEMORY_QUEUE": WithoutEffect(
        "another order of requests", "set `FRONTIER_ORDER`", quiet="scrapy.squeues.FifoMemoryQueue"
    ),
    "SCHEDULER_PRIORITY_QUEUE": WithoutEffect(
        "another order of requests",
        "hosts take turns; set `FRONTIER_ORDER` for the URLs of a host",
        quiet="scrapy.pqueues.DownloaderAwarePriorityQueue",
    ),
    "SCHEDULER_QUEUE_CLASS": WithoutEffect("another queue of scrapy-redis", "set `FRONTIER_ORDER`"),
    "SCHEDULER_SERIALIZER": WithoutEffect(
        "another format of stored requests", "they are stored as MessagePack"
    ),
    "SCHEDULER_START_DISK_QUEUE": WithoutEffect(
        "another order of start requests", "set `FRONTIER_ORDER`", quiet="scrapy.squeues.PickleFifoDiskQueue"
    ),
    "SCHEDULER_START_MEMORY_QUEUE": WithoutEffect(
        "another order of start requests", "set `FRONTIER_ORDER`", quiet="scrapy.squeues.FifoMemoryQueue"
    ),
    "TELNETCONSOLE_ENABLED": WithoutEffect(
        "a telnet console",
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
        "another resolver",
        "set `DNS_SERVERS`; names are resolved by the address guard",
        quiet="scrapy.resolver.CachingThreadedResolver",
    ),
    "TWISTED_REACTOR": WithoutEffect(
        "another reactor",
        "set `TWISTED_REACTOR_ENABLED = True` too",
        quiet="twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    ),
}
"""Setting -> what it asks for. docs/scrapy-here.md lists the same settings."""


def warn_without_effect(settings: UserSettings) -> None:
    """Log a warning for each setting of the table that a project, a spider or the command line asks something by."""
    for name, setting in WITHOUT_EFFECT.items():
        if setting.is_asked(name, settings) and not _is_met(name, settings):
            logger.warning(
                "%s = %r has no effect%s. It asks for %s: %s.",
                name,
                _given(name, settings),
                f", except on {setting.except_on}".replace("`", "") if setting.except_on else "",
                setting.asks,
                setting.instead.replace("`", ""),
            )


def _is_met(name: str, settings: UserSettings) -> bool:
    """Whether another setting gives it its effect, or says the same."""
    match name:
        case "RETRY_ENABLED":
            return bool(read(settings, "FRONTIER_MAX_ATTEMPTS") == 1)
        case "RETRY_TIMES":
            return bool(str(_given(name, settings)) == str(read(settings, "FRONTIER_MAX_ATTEMPTS") - 1))
        case "TWISTED_REACTOR" | "REACTOR_THREADPOOL_MAXSIZE":
            return bool(Flag().parse(settings.get("TWISTED_REACTOR_ENABLED", False)))
    return False


def _given(name: str, settings: UserSettings) -> Any:
    """The value as it was set; `get` warns of the deprecation of some of the names."""
    return settings.attributes[name].value


def _is_enabled(extension: str, settings: UserSettings) -> bool:
    components = settings.get_component_priority_dict_with_base("EXTENSIONS")
    return extension in {
        one if isinstance(one, str) else f"{one.__module__}.{one.__qualname__}" for one in components
    }
