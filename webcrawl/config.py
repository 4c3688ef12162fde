"""The project's settings, read once and checked at start. Each is described in docs/settings.md."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from webcrawl.errors import ConfigurationError

OBJECT_STORES: Mapping[str, str] = {
    "file": "webcrawl.stores.objects.folder.FolderStore",
    "s3": "webcrawl.stores.objects.s3.S3Store",
}
"""URI scheme -> path of the ObjectStore class that comes with the project."""

DEFAULTS: Mapping[str, Any] = {
    "CRAWL_MAX_BYTES": 0,
    "CRAWL_MAX_PAGES": 0,
    "CRAWL_WEIGHT": 1.0,
    "DOCUMENT_MEMORY": 65_536,
    "FRONTIER_HOT_URLS": 1000,
    "FRONTIER_LEASE_HOSTS": 256,
    "FRONTIER_LEASE_SECONDS": 60,
    "FRONTIER_LEASE_URLS": 20,
    "FRONTIER_LOW_LEVEL_SHARE": 0.1,
    "FRONTIER_MAX_ATTEMPTS": 5,
    "FRONTIER_ORDER": "breadth-first",
    "FRONTIER_RECENT_CACHE": 2**18,
    "FRONTIER_RETRY_DELAY": 30,
    "FRONTIER_SHARDS": 16,
    "HOST_MAX_BYTES": 0,
    "HOST_MAX_PAGES": 0,
    "HTML_PROCESS": True,
    "LISTENERS_MAXLEN": 0,
    "METADATA_HISTORY": 30,
    "MIME_MEMORY": 1_073_741_824,
    "MIME_PROCESSES": 1,
    "MIME_TIMEOUT": 20,
    "NEAR_DUPLICATES": "mark",
    "NEAR_DUPLICATES_FOLLOW": True,
    "OBJECT_STORES": OBJECT_STORES,
    "POLITENESS_BACKOFF": 60,
    "POLITENESS_CONNECT_BACKOFF": 10,
    "POLITENESS_FORGIVE_AFTER": 1_800,
    "POLITENESS_JITTER": 0.1,
    "POLITENESS_LATENCY_FACTOR": 0,
    "POLITENESS_MAX_BACKOFF": 86_400,
    "POLITENESS_MAX_CRAWL_DELAY": 60,
    "POLITENESS_MAX_FAILURES": 4,
    "SEEN_SET": "exact",
    "SIMHASH_DISTANCE": 3,
    "STORE_MIN_FREE_BYTES": 100_000_000,
    "STORE_SPOOL_MAX_BYTES": 100_000_000_000,
    "WARC_ROLL_BYTES": 1_000_000_000,
    "WARC_ROLL_SECONDS": 3600,
}
"""For projects that take only the scheduler and have no settings of ours; the same values as in settings.base."""


_TYPES = re.compile(r"[\w.+-]+/(?:[\w.+-]+|\*)|\*/\*")
ORDERS = ("breadth-first", "depth-first", "random")
LEAST_HOT_URLS = 8
MOST_DISTANCE = 7
"""With more, the blocks of the index would be so few that each holds a large part of all texts."""


class Settings(Protocol):
    """What is needed of Scrapy's settings object, so that nothing here imports Scrapy."""

    def get(self, name: str, default: Any = None) -> Any: ...
    def getbool(self, name: str, default: bool = False) -> bool: ...
    def getlist(self, name: str, default: list[Any] | None = None) -> list[Any]: ...
    def getdict(self, name: str, default: dict[Any, Any] | None = None) -> dict[Any, Any]: ...


@dataclass(frozen=True, slots=True)
class FrontierConfig:
    """How the frontier leases and retries; times in seconds."""

    crawl_id: str
    shards: int
    lease_seconds: float
    lease_urls: int
    lease_hosts: int
    max_attempts: int
    low_share: float
    recent: int
    retry_delay: float
    max_pages: int
    max_bytes: int
    host_max_pages: int
    host_max_bytes: int
    weight: float
    """The crawl's part of a host that other crawls want too."""
    depth_limit: int
    persist: bool
    flush_on_start: bool
    bloom: bool
    """The seen set is a Bloom filter in this process, not an exact one in the engine."""
    hot_urls: int
    """URLs of a host and level that are kept in the engine; 0: all."""
    order: str

    @classmethod
    def from_settings(cls, settings: Settings, spider: str) -> FrontierConfig:
        seen_set = settings.get("SEEN_SET", DEFAULTS["SEEN_SET"])
        if seen_set not in ("exact", "bloom"):
            raise ConfigurationError(f"SEEN_SET {seen_set!r}: use exact or bloom")
        order = settings.get("FRONTIER_ORDER", DEFAULTS["FRONTIER_ORDER"])
        if order not in ORDERS:
            raise ConfigurationError(f"FRONTIER_ORDER {order!r}: use {', '.join(ORDERS)}")
        hot_urls = whole(settings, "FRONTIER_HOT_URLS", least=0, most=100_000)
        if 0 < hot_urls < LEAST_HOT_URLS:
            raise ConfigurationError(f"FRONTIER_HOT_URLS {hot_urls}: use 0 or at least {LEAST_HOT_URLS}")
        return cls(
            bloom=seen_set == "bloom",
            hot_urls=hot_urls,
            order=order,
            crawl_id=settings.get("CRAWL_ID") or spider,
            shards=whole(settings, "FRONTIER_SHARDS", least=1, most=4096),
            lease_seconds=number(settings, "FRONTIER_LEASE_SECONDS", least=1),
            lease_urls=whole(settings, "FRONTIER_LEASE_URLS", least=1, most=1000),
            lease_hosts=whole(settings, "FRONTIER_LEASE_HOSTS", least=1, most=100_000),
            max_attempts=whole(settings, "FRONTIER_MAX_ATTEMPTS", least=1, most=255),
            low_share=number(settings, "FRONTIER_LOW_LEVEL_SHARE", least=0, most=1),
            recent=whole(settings, "FRONTIER_RECENT_CACHE", least=2),
            retry_delay=number(settings, "FRONTIER_RETRY_DELAY", least=0),
            max_pages=whole(settings, "CRAWL_MAX_PAGES", least=0),
            max_bytes=whole(settings, "CRAWL_MAX_BYTES", least=0),
            host_max_pages=whole(settings, "HOST_MAX_PAGES", least=0),
            host_max_bytes=whole(settings, "HOST_MAX_BYTES", least=0),
            weight=number(settings, "CRAWL_WEIGHT", least=0.001, most=1000),
            depth_limit=whole(settings, "DEPTH_LIMIT", least=0),
            persist=settings.getbool("SCHEDULER_PERSIST"),
            flush_on_start=settings.getbool("SCHEDULER_FLUSH_ON_START"),
        )


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """Which server: a URL of the user's, or None for the embedded one in `data_dir`; what else its client is told."""

    url: str | None
    parameters: Mapping[str, Any]
    data_dir: Path

    @classmethod
    def from_settings(cls, settings: Settings) -> EngineConfig:
        parameters = settings.getdict("REDIS_PARAMS")
        url = settings.get("REDIS_URL") or parameters.pop("url", None)
        if not url:
            for name in ("host", "port", "db"):
                if (value := settings.get(f"REDIS_{name.upper()}")) not in (None, ""):
                    parameters[name] = value
            url = _server_url(parameters)
        return cls(url, parameters, data_dir(settings))


def _server_url(parameters: dict[str, Any]) -> str | None:
    """The URL of the server that arguments of a client describe, which are taken out; None when none does."""
    parts = {name: parameters.pop(name, None) for name in ("host", "port", "db", "unix_socket_path")}
    if all(value is None for value in parts.values()):
        return None
    try:
        port, database = int(parts["port"] or 6379), int(parts["db"] or 0)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"REDIS_PORT {parts['port']!r} or REDIS_DB {parts['db']!r}: a whole number is needed"
        ) from None
    if path := parts["unix_socket_path"]:
        return f"unix://{quote(str(path))}?db={database}"
    scheme = "rediss" if parameters.pop("ssl", False) else "redis"
    host = str(parts["host"] or "localhost")
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/{database}"


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where pages and their metadata go."""

    pages: str
    """URI of an object store: file:///folder, s3://bucket/prefix, or a scheme of OBJECT_STORES."""
    metadata: str
    """SQLAlchemy URI."""
    data_dir: Path
    roll_bytes: int
    roll_seconds: float
    """0: a file may be as old as it gets."""
    spool_max: int
    """Bytes that may wait for S3; 0: any number."""
    min_free: int
    """Bytes that the disk must have left."""
    history: int = 30
    """Earlier fetches of a URL that are kept."""
    listeners: int = 0
    """Pages that are kept for listeners; 0: none are published."""
    object_stores: Mapping[str, str] = field(default_factory=lambda: OBJECT_STORES)
    """URI scheme -> path of an ObjectStore class."""

    @classmethod
    def from_settings(cls, settings: Settings) -> StoreConfig:
        folder = data_dir(settings)
        classes = object_stores(settings)
        pages = settings.get("STORE_URI") or (folder / "warc").resolve().as_uri()
        check_store_uri("STORE_URI", pages, classes)
        metadata = settings.get("METADATA_URI") or "sqlite"
        if metadata == "sqlite":
            metadata = f"sqlite:///{(folder / 'metadata.db').resolve()}"
        if metadata.partition(":")[0].partition("+")[0] not in ("sqlite", "postgresql"):
            raise ConfigurationError(
                f"METADATA_URI {metadata.partition(':')[0]}:...: use sqlite, sqlite:///path or postgresql://user@server/database"
            )
        return cls(
            pages,
            metadata,
            folder,
            roll_bytes=whole(settings, "WARC_ROLL_BYTES", least=1_000_000),
            roll_seconds=number(settings, "WARC_ROLL_SECONDS", least=0),
            spool_max=whole(settings, "STORE_SPOOL_MAX_BYTES", least=0),
            min_free=whole(settings, "STORE_MIN_FREE_BYTES", least=0),
            history=whole(settings, "METADATA_HISTORY", least=0),
            listeners=whole(settings, "LISTENERS_MAXLEN", least=0),
            object_stores=classes,
        )


_STORE_URIS = {
    "file": (re.compile("file://(localhost)?/"), "file:///folder"),
    "s3": (re.compile("s3://[^/]"), "s3://bucket/prefix"),
}
"""Scheme -> how its URIs begin, and an example."""


def object_stores(settings: Settings) -> dict[str, str]:
    """OBJECT_STORES merged with its default: URI scheme -> path of an ObjectStore class."""
    classes = {**OBJECT_STORES, **settings.getdict("OBJECT_STORES")}
    return {scheme: path for scheme, path in classes.items() if path}


def check_store_uri(name: str, uri: str, classes: Mapping[str, str]) -> None:
    """Raise ConfigurationError, naming the setting or argument `name`, unless `classes` has a store for this URI."""
    scheme = urlsplit(uri).scheme
    if scheme not in classes:
        known = ", ".join(f"{one}://" for one in classes)
        raise ConfigurationError(
            f"{name} {uri!r}: use a URI that begins with one of {known} (see OBJECT_STORES)"
        )
    if scheme in _STORE_URIS and not _STORE_URIS[scheme][0].match(uri):
        raise ConfigurationError(f"{name} {uri!r}: use {_STORE_URIS[scheme][1]}")


def spill_uri(settings: Settings, engine: EngineConfig, stores: StoreConfig) -> str | None:
    """Where tails of queues go; None: nowhere, since no place is known that all workers share."""
    uri = settings.get("FRONTIER_SPILL_URI")
    if not uri and engine.url is None:
        return (engine.data_dir / "frontier").resolve().as_uri()
    if not uri:
        is_shared = urlsplit(stores.pages).scheme != "file"
        return f"{stores.pages.rstrip('/')}/frontier" if is_shared else None
    check_store_uri("FRONTIER_SPILL_URI", str(uri), stores.object_stores)
    return str(uri)


@dataclass(frozen=True, slots=True)
class DuplicatesConfig:
    """What becomes of pages whose texts differ in at most `distance` of 64 bits of their SimHashes."""

    distance: int
    drop: bool
    follow: bool

    @classmethod
    def from_settings(cls, settings: Settings) -> DuplicatesConfig:
        way = settings.get("NEAR_DUPLICATES", DEFAULTS["NEAR_DUPLICATES"])
        if way not in ("mark", "drop"):
            raise ConfigurationError(f"NEAR_DUPLICATES {way!r}: use mark or drop")
        return cls(
            distance=whole(settings, "SIMHASH_DISTANCE", least=0, most=MOST_DISTANCE),
            drop=way == "drop",
            follow=settings.getbool("NEAR_DUPLICATES_FOLLOW", DEFAULTS["NEAR_DUPLICATES_FOLLOW"]),
        )


@dataclass(frozen=True, slots=True)
class Spool:
    """Bodies of more than `memory` bytes are kept in files without name on the disk of `folder`."""

    folder: Path
    memory: int = 65_536


@dataclass(frozen=True, slots=True)
class FetchConfig:
    """Bounds of a download: seconds, bytes (0 = none)."""

    timeout: float
    maxsize: int
    warnsize: int
    sizes: Mapping[str, int]
    """MIME type, "text/*" or "*/*" -> bytes above which a body is cut off."""
    spool: Spool

    @classmethod
    def from_settings(cls, settings: Settings) -> FetchConfig:
        # Scrapy's own, which it does not check
        whole(settings, "CONCURRENT_ITEMS", least=1)
        whole(settings, "SCRAPER_SLOT_MAX_ACTIVE_SIZE", least=1)
        whole(settings, "CONCURRENT_REQUESTS", least=0)
        return cls(
            timeout=number(settings, "DOWNLOAD_TIMEOUT", least=0.001),
            maxsize=whole(settings, "DOWNLOAD_MAXSIZE", least=0),
            warnsize=whole(settings, "DOWNLOAD_WARNSIZE", least=0),
            sizes=_sizes(settings.getdict("DOCUMENT_MAXSIZE")),
            spool=Spool(data_dir(settings) / "spool", whole(settings, "DOCUMENT_MEMORY", least=0)),
        )


def _sizes(limits: Mapping[Any, Any]) -> dict[str, int]:
    for name, size in limits.items():
        if not _TYPES.fullmatch(str(name)):
            raise ConfigurationError(f'DOCUMENT_MAXSIZE {name!r}: use a MIME type, "text/*" or "*/*"')
        if not isinstance(size, int) or size < 0:
            raise ConfigurationError(
                f"DOCUMENT_MAXSIZE {name!r}: {size!r}: a number of bytes is needed, 0 for no limit"
            )
    return {str(name).lower(): size for name, size in limits.items()}


@dataclass(frozen=True, slots=True)
class ReaderConfig:
    """How many documents are read at a time; for each its seconds, for each process its bytes of address space."""

    processes: int
    seconds: float
    memory: int

    @classmethod
    def from_settings(cls, settings: Settings) -> ReaderConfig:
        return cls(
            processes=whole(settings, "MIME_PROCESSES", least=1, most=64),
            seconds=number(settings, "MIME_TIMEOUT", least=0.1, most=3_600),
            memory=whole(settings, "MIME_MEMORY", least=256 * 1024 * 1024),
        )


_POLITENESS = {
    "delay": "DOWNLOAD_DELAY",
    "concurrency": "CONCURRENT_REQUESTS_PER_DOMAIN",
    "max_crawl_delay": "POLITENESS_MAX_CRAWL_DELAY",
    "latency_factor": "POLITENESS_LATENCY_FACTOR",
    "backoff": "POLITENESS_BACKOFF",
    "max_backoff": "POLITENESS_MAX_BACKOFF",
    "jitter": "POLITENESS_JITTER",
    "forgive_after": "POLITENESS_FORGIVE_AFTER",
    "connect_backoff": "POLITENESS_CONNECT_BACKOFF",
    "max_failures": "POLITENESS_MAX_FAILURES",
}
_COUNTS = ("concurrency", "max_failures")


@dataclass(frozen=True, slots=True)
class PolitenessConfig:
    """How a host is treated; durations in seconds. A wrong value raises ConfigurationError naming its setting."""

    delay: float = 1.0
    concurrency: int = 1
    max_crawl_delay: float = 60.0
    latency_factor: float = 0.0
    backoff: float = 60.0
    max_backoff: float = 86400.0
    jitter: float = 0.1
    forgive_after: float = 1800.0
    connect_backoff: float = 10.0
    max_failures: int = 4

    def __post_init__(self) -> None:
        for name, setting in _POLITENESS.items():
            value = getattr(self, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not math.isfinite(value)
                or value < 0
            ):
                raise ConfigurationError(f"{setting} must be a number that is not negative, not {value!r}")
            if name in _COUNTS and (value != int(value) or value < 1):
                raise ConfigurationError(f"{setting} must be a whole number of at least 1, not {value!r}")
        for name in ("backoff", "connect_backoff"):
            if getattr(self, name) > self.max_backoff:
                raise ConfigurationError(f"{_POLITENESS[name]} is larger than {_POLITENESS['max_backoff']}")


def politeness(settings: Settings) -> PolitenessConfig:
    """The politeness part of the settings."""
    return PolitenessConfig(
        delay=number(settings, "DOWNLOAD_DELAY", least=0),
        concurrency=whole(settings, "CONCURRENT_REQUESTS_PER_DOMAIN", least=1),
        max_crawl_delay=number(settings, "POLITENESS_MAX_CRAWL_DELAY", least=0),
        latency_factor=number(settings, "POLITENESS_LATENCY_FACTOR", least=0),
        backoff=number(settings, "POLITENESS_BACKOFF", least=0),
        max_backoff=number(settings, "POLITENESS_MAX_BACKOFF", least=0),
        jitter=number(settings, "POLITENESS_JITTER", least=0),
        forgive_after=number(settings, "POLITENESS_FORGIVE_AFTER", least=0),
        connect_backoff=number(settings, "POLITENESS_CONNECT_BACKOFF", least=0),
        max_failures=whole(settings, "POLITENESS_MAX_FAILURES", least=1),
    )


def politeness_overrides(settings: Settings) -> dict[str, PolitenessConfig]:
    """Scrapy's DOWNLOAD_SLOTS: host name -> how it is treated, from its `delay` and `concurrency`."""
    common, overrides = politeness(settings), {}
    for name, slot in settings.getdict("DOWNLOAD_SLOTS").items():
        changes = {key: slot[key] for key in ("delay", "concurrency") if key in slot}
        try:
            overrides[str(name)] = replace(common, **changes)
        except ConfigurationError as error:
            raise ConfigurationError(f"DOWNLOAD_SLOTS {name!r}: {error}") from error
    return overrides


def data_dir(settings: Settings) -> Path:
    """DATA_DIR as a path; raises ConfigurationError when it cannot be a folder."""
    path = Path(str(settings.get("DATA_DIR") or "data"))
    if path.exists() and not path.is_dir():
        raise ConfigurationError(f"DATA_DIR {str(path)!r} is not a folder")
    return path


def number(settings: Settings, name: str, *, least: float, most: float = float("inf")) -> float:
    """A numeric setting within bounds; raises ConfigurationError naming it."""
    value = settings.get(name, DEFAULTS.get(name))
    try:
        result = float(value)
        int(result)  # neither infinite nor not-a-number
    except (TypeError, ValueError, OverflowError):
        raise ConfigurationError(f"{name} {value!r}: a number is needed") from None
    if not least <= result <= most:
        limit = f"at least {least:g}" if result < least or most == float("inf") else f"at most {most:g}"
        raise ConfigurationError(f"{name} {value!r}: must be {limit}")
    return result


def whole(settings: Settings, name: str, *, least: int, most: float = float("inf")) -> int:
    """A whole-number setting within bounds; raises ConfigurationError naming it."""
    result = number(settings, name, least=least, most=most)
    if result != int(result):
        raise ConfigurationError(f"{name} {settings.get(name)!r}: a whole number is needed")
    return int(result)
