"""The frontier's part of the settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from webcrawl.config.records import from_setting, read, setting_values
from webcrawl.config.setting import Settings
from webcrawl.errors import ConfigurationError

_LEASED_URLS = 20
_LEASED_HOSTS = 256
_MOST_LEASED_HOSTS = 5_000  # a host takes 20 to 40 KB
_HOSTS_PER_REQUEST = 4
_LONGEST_DELAY = 10
_LONGEST_RETRY_DELAY = 86_400.0
_LOW_SHARE = 0.1
_LOW_SHARE_MINED = 0.02
"""What was learned from pages is less of a guess than other terms, so fewer fetches go against it."""


@dataclass(frozen=True, slots=True)
class FrontierConfig:
    """How the frontier leases and retries; times in seconds."""

    crawl_id: str
    shards: int = from_setting("FRONTIER_SHARDS")
    unit: str = from_setting("POLITENESS_UNIT")
    lease_seconds: float = from_setting("FRONTIER_LEASE_SECONDS")
    lease_urls: int = _LEASED_URLS
    """URLs of one host that a worker leases ahead."""
    lease_hosts: int = _LEASED_HOSTS
    """Hosts that a worker holds at once."""
    most_lease_hosts: int = 0
    """Hosts that a worker may hold while connections are free; the same as `lease_hosts` if that is enough."""
    max_attempts: int = from_setting("FRONTIER_MAX_ATTEMPTS")
    low_share: float = _LOW_SHARE
    """Share of leased hosts whose best URL has a lower priority than that of other hosts, and of the links of a host
    with a lower priority than its others, so that none starves."""
    processing_timeout: float = from_setting("PROCESSING_TIMEOUT")
    retry_delay: float = from_setting("FRONTIER_RETRY_DELAY")
    max_pages: int = from_setting("CRAWL_MAX_PAGES")
    max_bytes: int = from_setting("CRAWL_MAX_BYTES")
    host_max_pages: int = from_setting("HOST_MAX_PAGES")
    host_max_bytes: int = from_setting("HOST_MAX_BYTES")
    weight: float = from_setting("CRAWL_WEIGHT")
    depth_limit: int = from_setting("DEPTH_LIMIT")
    persist: bool = from_setting("SCHEDULER_PERSIST")
    flush_on_start: bool = from_setting("SCHEDULER_FLUSH_ON_START")
    bloom: bool = False
    """The seen set is a Bloom filter in this process, not an exact set in the engine."""
    hot_urls: int = from_setting("FRONTIER_HOT_URLS")
    order: str = from_setting("FRONTIER_ORDER")
    importance: str = from_setting("IMPORTANCE")
    mined: bool = from_setting("MINED")
    budgets: bool = from_setting("HOST_BUDGETS")
    recrawl: bool = from_setting("RECRAWL")
    """The crawl does not end, and pages are fetched again."""
    traffic: Mapping[str, float | Mapping[str, float]] = field(default_factory=dict)
    """Class of fetches -> its part of all, and domain -> the parts of its hosts; empty without shares."""

    @classmethod
    def from_settings(cls, settings: Settings, spider: str) -> Self:
        lease_hosts, lease_urls = _leases(
            read(settings, "CONCURRENT_REQUESTS"), read(settings, "DOWNLOAD_DELAY")
        )
        return cls(
            crawl_id=read(settings, "CRAWL_ID") or spider,
            lease_hosts=lease_hosts,
            most_lease_hosts=_MOST_LEASED_HOSTS,
            lease_urls=lease_urls,
            low_share=_LOW_SHARE_MINED if read(settings, "MINED") else _LOW_SHARE,
            bloom=read(settings, "SEEN_SET") == "bloom",
            traffic=read(settings, "TRAFFIC"),
            **setting_values(cls, settings),
        )

    @property
    def longest_retries(self) -> float:
        """Seconds from the first failure of a URL to its last attempt, without the back-off of its host."""
        return sum(map(self.retry_after, range(self.max_attempts - 1)))

    def retry_after(self, attempts: int) -> float:
        """Returns the seconds before the next attempt of a URL that had failed `attempts` times before."""
        return max(self.retry_delay, min(self.retry_delay * 2.0**attempts, _LONGEST_RETRY_DELAY))


@dataclass(frozen=True, slots=True)
class RecrawlConfig:
    """How often pages are fetched again; times in seconds. `max_age` is infinite if there is no limit."""

    min_interval: float = from_setting("RECRAWL_MIN_INTERVAL")
    max_age: float = math.inf
    weights: str = from_setting("RECRAWL_WEIGHTS")

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Raises ConfigurationError if the longest time between two fetches is shorter than the shortest."""
        max_age = read(settings, "RECRAWL_MAX_AGE") or math.inf
        config = cls(max_age=max_age, **setting_values(cls, settings))
        if config.max_age < config.min_interval:
            raise ConfigurationError(
                f"RECRAWL_MAX_AGE is {config.max_age:g} seconds, and RECRAWL_MIN_INTERVAL is {config.min_interval:g}: "
                "pages cannot be fetched within a time that is shorter than the shortest between two fetches"
            )
        return config


def _leases(concurrency: int, delay: float) -> tuple[int, int]:
    """Returns how many hosts a worker leases, and how many URLs of each.

    The longer the delay, the more hosts are needed to keep the connections busy, and the fewer URLs of each; their
    product, the number of URLs leased ahead, stays the same.
    """
    stretch = min(max(1.0, delay), _LONGEST_DELAY)
    hosts = max(_LEASED_HOSTS, _HOSTS_PER_REQUEST * concurrency)
    return int(hosts * stretch), int(_LEASED_URLS / stretch)
