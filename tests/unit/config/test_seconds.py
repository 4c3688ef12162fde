"""Times of settings may have a unit."""

from __future__ import annotations

import pytest

from webcrawl.config.kinds import Seconds


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("value", ["2 weeks", "h", "-5s", "", "1h30m", "nan", None, True])
def test_other_times_are_refused(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        Seconds().parse(value)


def test_the_least_time_holds_for_text() -> None:
    with pytest.raises(ValueError, match="0"):
        Seconds(1).parse("0s")
