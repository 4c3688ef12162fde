"""Times of settings may have a unit."""

from __future__ import annotations

import pytest
from scrapy.settings import Settings

from tests.cases import cases
from webcrawl.config import FrontierConfig, check
from webcrawl.config.kinds import Seconds
from webcrawl.errors import ConfigurationError


@cases(
    ("value", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("2h", 7_200),
        ("7d", 604_800),
        ("1.5h", 5_400),
        ("12", 12),
        (3, 3),
        (0.5, 0.5),
    ],
)
def test_seconds_have_units(value: object, seconds: float) -> None:
    assert Seconds().parse(value) == seconds


@cases("value", ["2 weeks", "h", "-5s", "", "1h30m", "nan", None, True])
def test_other_times_are_refused(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        Seconds().parse(value)


def test_the_least_time_holds_for_text() -> None:
    with pytest.raises(ValueError, match="0"):
        Seconds(1).parse("0s")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("FRONTIER_LEASE_SECONDS", "1e30"),
        ("CHECKPOINT_EVERY", 1e11),
        ("DOWNLOAD_DELAY", 10**12),
        ("RECRAWL_MAX_AGE", "9999999d"),
        ("STORE_QUOTA_BYTES", 10**30),
        ("POLITENESS_BACKOFF", "inf"),
    ],
)
def test_numbers_that_no_time_or_size_has_are_refused(setting: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{setting}, .* is too large: at most "):
        check({setting: value})


def test_a_rule_for_times_is_text() -> None:
    with pytest.raises(ConfigurationError, match="FETCH_MAX_AGE, entry 1 is no host or URL pattern"):
        check({"FETCH_MAX_AGE": {1: "7d"}})


@cases(
    ("delay", "delays"),
    [
        (30.0, {0: 30.0, 1: 60.0, 11: 61_440.0, 12: 86_400.0, 254: 86_400.0}),
        (100_000.0, {0: 100_000.0, 1: 100_000.0, 254: 100_000.0}),
        (0.0, {0: 0.0, 254: 0.0}),
    ],
)
def test_retries_wait_for_a_day_at_most(delay: float, delays: dict[int, float]) -> None:
    settings = Settings({"FRONTIER_RETRY_DELAY": delay, "FRONTIER_MAX_ATTEMPTS": 3})
    config = FrontierConfig.from_settings(settings, "crawl")
    assert {attempts: config.retry_after(attempts) for attempts in delays} == delays
    assert config.longest_retries == config.retry_after(0) + config.retry_after(1)
