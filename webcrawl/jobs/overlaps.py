"""What people are told of firings that met a predecessor that had not ended: those skipped, those that replaced it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby

from webcrawl.alarms.outbox import Notice
from webcrawl.documents.values import counted
from webcrawl.jobs.firing import MISSED, REPLACED
from webcrawl.jobs.records import Iteration, State


def overlaps(found: Sequence[Iteration], now: datetime, link: str) -> list[Notice]:
    """Returns the notices about the latest iterations of a job, the oldest first; the same ones each time.

    Firings that the same iteration has kept from running are told together: at the first, and whenever their number
    has doubled.
    """
    skipped = [(before, one) for one in found if (before := _predecessor(one, found))]
    told = [
        _skipping(before, [one for _, one in together], now, link)
        for before, together in groupby(skipped, lambda pair: pair[0])
    ]
    replaced = [one for one in found if _replacement(one)]
    return told + [
        _replacing(reason, list(together), now, link) for reason, together in groupby(replaced, _replacement)
    ]


def _predecessor(one: Iteration, found: Sequence[Iteration]) -> Iteration | None:
    """The iteration that kept a firing from running; None if it ran, or was missed."""
    if one.state != State.SKIPPED or one.fired is None or (one.reason or "").startswith(MISSED):
        return None
    return next((before for before in found if _lasted_until(before, one, one.fired)), None)


def _lasted_until(before: Iteration, one: Iteration, moment: datetime) -> bool:
    if before.number >= one.number or before.state == State.SKIPPED:
        return False
    return before.ended is None or before.ended >= moment


def _replacement(one: Iteration) -> str:
    """By what an iteration was replaced, or ""."""
    return next((text for text in (one.stop, one.reason) if text and text.startswith(REPLACED)), "")


def _skipping(before: Iteration, together: Sequence[Iteration], now: datetime, link: str) -> Notice:
    """Of firings that were skipped because of the same iteration."""
    number = counted(len(together), "firing")
    lines = [
        f"{number} skipped, the latest at {_time(together[-1].due)}, because iteration {before.number} had not ended.",
        *_course(before),
        "If that happens often, let the job fire less often, or give it another overlap.",
    ]
    key = f"{before.crawl} SKIPPED {len(together).bit_length()}"
    return _notice(key, before, f"{number} skipped", lines, now, link)


def _replacing(reason: str, together: Sequence[Iteration], now: datetime, link: str) -> Notice:
    lines = [line for one in together for line in _course(one)]
    number = counted(len(together), "iteration")
    lines.insert(0, f"{number} {reason}.")
    key = f"{together[0].crawl} REPLACED"
    return _notice(key, together[0], f"{number} replaced", lines, now, link)


def _course(one: Iteration) -> Iterator[str]:
    began = f"began at {_time(one.started)}" if one.started else f"had waited since {_time(one.due)}"
    yield f"Iteration {one.number} {began}."
    if one.started:
        yield f"Crawl {one.crawl}: {counted(one.processed, 'page')} processed, {counted(one.queued, 'URL')} left."


def _notice(key: str, one: Iteration, title: str, lines: list[str], now: datetime, link: str) -> Notice:
    return Notice(key, "OVERLAP", f"{one.job}: {title}", "\n".join(lines), now, one.crawl, one.job, link)


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
