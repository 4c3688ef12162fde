"""The part of the settings for politeness."""

from __future__ import annotations

import resource
from dataclasses import dataclass, replace
from typing import Self

from webcrawl.config.declared import DEFAULTS
from webcrawl.config.records import check_numbers, from_setting, read, setting_values
from webcrawl.config.setting import Settings
from webcrawl.errors import ConfigurationError

_CONNECT_SHARE = 6
_SLOW_REQUESTS = 4_096


@dataclass(frozen=True, slots=True)
class PolitenessConfig:
    """How a host is treated; durations in seconds. A wrong value raises ConfigurationError with its setting."""

    delay: float = from_setting("DOWNLOAD_DELAY")
    concurrency: int = from_setting("CONCURRENT_REQUESTS_PER_DOMAIN")
    max_crawl_delay: float = from_setting("POLITENESS_MAX_CRAWL_DELAY")
    latency_factor: float = from_setting("POLITENESS_LATENCY_FACTOR")
    backoff: float = from_setting("POLITENESS_BACKOFF")
    max_backoff: float = from_setting("POLITENESS_MAX_BACKOFF")
    max_failures: int = from_setting("POLITENESS_MAX_FAILURES")
    adapt: bool = from_setting("POLITENESS_ADAPT")
    min_delay: float = from_setting("POLITENESS_MIN_DELAY")
    jitter: float = 0.1
    """Back-offs are lengthened at random by up to this share, so that hosts do not return together."""
    forgive_after: float = 1800.0
    """After this time without a failure, earlier failures are forgotten."""
    connect_backoff: float = DEFAULTS["POLITENESS_BACKOFF"] / _CONNECT_SHARE
    """The first back-off from a host that cannot be reached or does not answer in time."""

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.backoff > self.max_backoff:
            raise ConfigurationError(
                f"POLITENESS_BACKOFF is larger than POLITENESS_MAX_BACKOFF: {self.backoff} > {self.max_backoff}"
            )

    def with_delay(self, delay: float) -> Self:
        """Returns a copy with another delay, which is also the shortest delay of its adaptation."""
        config = replace(self, delay=delay)
        return replace(config, min_delay=max(delay, config.min_delay)) if config.adapt else config


@dataclass(frozen=True, slots=True)
class AddressConfig:
    """How an IP address is treated."""

    connections: int = from_setting("POLITENESS_ADDRESS_CONNECTIONS")
    """Simultaneous requests over all workers; 0 means no limit."""
    delay: float = from_setting("POLITENESS_ADDRESS_DELAY")
    """Seconds from the start of one request to the start of the next, over all workers."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls(**setting_values(cls, settings))

    @property
    def is_on(self) -> bool:
        """Whether one of the limits is set."""
        return bool(self.connections or self.delay)


def politeness(settings: Settings) -> PolitenessConfig:
    """How hosts are treated; raises ConfigurationError."""
    config = PolitenessConfig(**setting_values(PolitenessConfig, settings))
    return replace(config, connect_backoff=config.backoff / _CONNECT_SHARE)


def slow_requests(settings: Settings) -> int:
    """The number of slow requests that do not count for CONCURRENT_REQUESTS; raises ConfigurationError."""
    given = read(settings, "CONCURRENT_SLOW_REQUESTS")
    if given is not None:
        return int(given)
    if read(settings, "CONCURRENT_REQUESTS") != DEFAULTS["CONCURRENT_REQUESTS"]:
        return 0  # a limit that the user sets is exact
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _SLOW_REQUESTS if files == resource.RLIM_INFINITY else min(_SLOW_REQUESTS, files // 2)


def politeness_overrides(settings: Settings) -> dict[str, PolitenessConfig]:
    """Host name -> how it is treated, from `delay` and `concurrency` in DOWNLOAD_SLOTS; raises ConfigurationError."""
    common, overrides = politeness(settings), {}
    for name, slot in read(settings, "DOWNLOAD_SLOTS").items():
        changes = {key: slot[key] for key in ("delay", "concurrency") if key in slot}
        try:
            config = replace(common, **changes)
            overrides[str(name)] = config.with_delay(config.delay) if "delay" in slot else config
        except ConfigurationError as error:
            raise ConfigurationError(f"DOWNLOAD_SLOTS {name!r}: {error}") from error
    return overrides
