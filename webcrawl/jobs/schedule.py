"""The schedule of a job: a cron expression in a time zone, evaluated by cronsim with the rules of Debian's cron.

When clocks are set forward, a firing in the skipped hour is due at the end of the hour. When clocks are set back, a
firing in the repeated hour is due the first time. An expression whose minutes or hours begin with a star fires in both
hours, because it means every minute or hour that passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import dropwhile, islice, takewhile
from typing import Any
from zoneinfo import ZoneInfo

from webcrawl.config.libraries import optional
from webcrawl.errors import WrongJob

MOST_MISSED = 100
"""The most firings that are decided after a time without schedulers; earlier firings are dropped."""
_FIELDS = 5


@dataclass(frozen=True)
class Schedule:
    """A cron expression of five fields; raises WrongJob unless it can fire."""

    cron: str
    timezone: str = "UTC"
    _zone: ZoneInfo = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "_zone", ZoneInfo(self.timezone))
        except (KeyError, OSError, ValueError) as error:
            raise WrongJob(
                f"there is no {self.timezone!r}; write one such as Europe/Paris", "timezone"
            ) from error
        self._check()

    def after(self, moment: datetime) -> datetime:
        """Returns the first firing after a moment, in UTC."""
        return next(self._firings(moment))

    def between(self, after: datetime, until: datetime) -> list[datetime]:
        """Returns the latest firings in (after, until], in UTC; at most MOST_MISSED."""
        if until <= after:
            return []
        # a year of minutes would take seconds
        back = _cronsim().CronSim(self.cron, until.astimezone(self._zone), reverse=True)
        early = next(islice(back, MOST_MISSED + 1, None), after).astimezone(UTC) - timedelta(days=1)
        firings = takewhile(lambda due: due <= until, self._firings(max(after, min(early, until))))
        return list(firings)[-MOST_MISSED:]

    def _firings(self, after: datetime) -> Iterator[datetime]:
        """Yields the firings after a moment, in order."""
        # a day earlier, because cronsim does not know in which of two repeated hours it begins
        begin = (after - timedelta(days=1)).astimezone(self._zone)
        inexact = _cronsim().CronSim(self.cron, begin)
        return dropwhile(lambda due: due <= after, (due.astimezone(UTC) for due in inexact))

    def _check(self) -> None:
        library = _cronsim()
        if len(self.cron.split()) != _FIELDS:
            raise WrongJob(
                f"{self.cron!r} must have five fields: minute, hour, day of month, month, day of week", "cron"
            )
        try:
            next(library.CronSim(self.cron, datetime(2000, 1, 1, tzinfo=UTC)))
        except library.CronSimError as error:
            raise WrongJob(f"{self.cron!r}: {_lower(str(error))}", "cron") from error
        except (StopIteration, RuntimeError):
            raise WrongJob(f"{self.cron!r} never fires", "cron") from None


def _cronsim() -> Any:
    return optional("cron", "cronsim", "jobs", "cronsim")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
