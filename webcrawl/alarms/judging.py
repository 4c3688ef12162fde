"""Decides which alarms are due, from a reading and the state of the watcher. Uses no clock, network or disk.

No problem is in two alarms, and related problems share an alarm:

- Workers that died within the same ten seconds share an alarm, ten seconds after the last death.
- Hosts that were given up, and stuck pages of a kind, have an alarm when their number has doubled since the last alarm:
  the first after 30 seconds, the next after ten minutes at the earliest. So n hosts cause at most log2(n) + 1 alarms.
- Checkpoints that cannot be written have one alarm until the next one is written.
- A crawl without a fetch has one alarm until the next fetch. An error surge, or a hold, has one alarm until it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from webcrawl.alarms.reading import CrawlReading
from webcrawl.alarms.state import FetchProgress, Growth, Holding, WatcherState
from webcrawl.alarms.surge import Surge, judge_errors
from webcrawl.documents.values import counted

STALLED_SECONDS = 600.0
"""A crawl that has URLs to fetch but fetches nothing for this time is stalled."""
LOST_SECONDS = 10.0
"""Workers that died in the same period of this length share an alarm. Until the end of the period they may return."""
HOLDING_SECONDS = 30.0
CHECKPOINT_SECONDS = 300.0
"""A checkpoint that cannot be written for this time, or for half of CHECKPOINT_EVERY, is told."""
FIRST_SECONDS, NEXT_SECONDS = 30.0, 600.0
"""The delay of the first alarm about a growing number, and the least time until the next alarm."""
UNSEEN_SECONDS = 60.0
"""After a longer gap between readings, a standstill is measured from the new reading."""
_MOST_NAMED = 10
NOTIFIED = 0.0
"""The value in `WatcherState.lost` of a worker that was in an alarm, instead of a time."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm. Kind, crawl and `mark` identify it.

    lost     the workers that died
    about    the kind of stuck pages of the alarm
    """

    kind: str
    mark: str
    title: str
    text: str
    lost: tuple[str, ...] = ()
    about: str = ""


def judge(state: WatcherState, reading: CrawlReading) -> tuple[WatcherState, list[Alarm]]:
    """Returns the new state after a reading, and the alarms that are due."""
    unseen = reading.now - state.seen > UNSEEN_SECONDS
    progress, stalled = _judge_progress(
        replace(state.progress, since=reading.now) if unseen else state.progress, reading
    )
    errors, surge = judge_errors(state.errors, reading)
    hosts, given_up = _judge_hosts(state.hosts, reading)
    holding, stores = _judge_holding(state.holding, reading)
    failing, checkpoint = _judge_checkpoint(state.checkpoint, reading)
    stuck, refused = _judge_stuck(state.stuck, reading)
    first_seen = {} if unseen else state.lost
    lost = {worker: first_seen.get(worker, reading.now) for worker in reading.lost}
    died = _lost_workers(lost, reading)
    lost |= {worker: NOTIFIED for alarm in died for worker in alarm.lost}
    alarms = [
        *died,
        stalled,
        surge and _surge_alarm(surge),
        given_up,
        stores,
        checkpoint,
        *refused,
    ]
    after = WatcherState(reading.now, progress, errors, hosts, holding, failing, stuck, lost)
    return after, [alarm for alarm in alarms if alarm]


def _judge_progress(progress: FetchProgress, reading: CrawlReading) -> tuple[FetchProgress, Alarm | None]:
    may_rest = reading.paused or not reading.open or not reading.workers or reading.holding
    if may_rest or reading.fetched != progress.fetched:
        return FetchProgress(reading.fetched, reading.now), None
    seconds = reading.now - progress.since
    if progress.notified or seconds < STALLED_SECONDS:
        return progress, None
    text = (
        f"Nothing was fetched for {seconds / 60:.0f} minutes. {counted(reading.open, 'URL')} to fetch, "
        f"{counted(reading.workers, 'worker')} alive. The hosts may back off or have long delays: the progress line of "
        "the crawl says what it waits for."
    )
    alarm = Alarm("STALLED", f"{progress.fetched} {progress.since:.0f}", "no progress", text)
    return replace(progress, notified=True), alarm


def _surge_alarm(surge: Surge) -> Alarm:
    share, usual = surge.bad / surge.fetches, surge.mean
    text = (
        f"{surge.bad:,} of {counted(surge.fetches, 'fetch', 'fetches')} failed or were answered with an error within "
        f"{surge.seconds:.0f} seconds: {share:.0%}, and usually {usual:.0%} in this crawl."
    )
    return Alarm("ERRORS", f"{surge.began:.0f}", f"error surge: {share:.0%} instead of {usual:.0%}", text)


def _judge_hosts(hosts: Growth, reading: CrawlReading) -> tuple[Growth, Alarm | None]:
    # the totals of a crawl that was cleared begin at zero again
    notified = min(hosts.notified, reading.given_up)
    after, is_due = _grown(replace(hosts, notified=notified), reading.given_up - notified, reading.now)
    if not is_due:
        return after, None
    number = counted(reading.given_up, "host")
    text = (
        f"{number} were given up after too many failures in a row, {reading.given_up - notified:,} of them since the "
        "last notification. Their URLs are dead letters: `scrapy stuck` lists them."
    )
    return after, Alarm("HOSTS", str(reading.given_up), f"{number} given up", text)


def _judge_holding(holding: Holding, reading: CrawlReading) -> tuple[Holding, Alarm | None]:
    if not reading.holding:
        return Holding(), None
    since = holding.since or reading.now
    if holding.notified or reading.now - since < HOLDING_SECONDS:
        return Holding(since, holding.notified), None
    workers = f"{len(reading.holding)} of {counted(max(reading.workers, len(reading.holding)), 'worker')}"
    reasons = sorted(set(reading.holding.values()))[:_MOST_NAMED]
    text = "\n".join(
        [f"{workers} fetch nothing, because their stores accept no more. Nothing is lost.", *reasons]
    )
    return Holding(since, True), Alarm("STORES", f"holding {since:.0f}", f"{workers} hold", text)


def _judge_checkpoint(notified: float, reading: CrawlReading) -> tuple[float, Alarm | None]:
    """Returns since when the failure lasts about which there was an alarm, 0 for none, and the alarm that is due."""
    state = reading.checkpoint
    if state is None or not state.failed:
        return 0.0, None
    if notified == state.failed or reading.now - state.failed < min(CHECKPOINT_SECONDS, state.every / 2):
        return notified, None
    last = (
        f"The last one is {state.age(reading.now) / 3600:.1f} hours old: {state.uri}"
        if state.at
        else "There is none."
    )
    text = f"{state.error}\n{last}\nThe workers try again each minute."
    return state.failed, Alarm("CHECKPOINT", f"{state.failed:.0f}", "no checkpoint can be written", text)


def _judge_stuck(
    stuck: Mapping[str, Growth], reading: CrawlReading
) -> tuple[dict[str, Growth], Sequence[Alarm]]:
    after, alarms = dict(stuck), []
    for kind, untold in sorted(reading.untold.items()):
        growth = stuck.get(kind, Growth())
        after[kind], is_due = _grown(growth, untold, reading.now)
        if is_due:
            alarms.append(_stuck_alarm(kind, growth.notified, untold))
    return after, alarms


def _stuck_alarm(kind: str, notified: int, untold: int) -> Alarm:
    pages = counted(untold, "more page" if notified else "page")
    what = {
        "SCHEMA": "whose items or fields are not as declared",
        "DOCUMENT": "that no reader can read",
        "DEAD_LETTER": "whose fetch failed for good",
    }.get(kind, "that are stuck")
    title = f"{pages} {what}" + (f" ({notified + untold:,} in all)" if notified else "")
    name = "SCHEMA" if kind == "SCHEMA" else "STUCK"
    return Alarm(name, f"{kind} {notified + untold}", title, "", about=kind)


def _grown(growth: Growth, more: int, now: float) -> tuple[Growth, bool]:
    """Returns the growth after `more` were added, and whether an alarm about them is due."""
    if not more:
        # `since` stays after an alarm, so that the next alarm keeps its distance
        return (growth if growth.notified else Growth()), False
    since = growth.since or now
    if now < since:
        since = now
    wait = NEXT_SECONDS if growth.notified else FIRST_SECONDS
    if more < growth.notified or now - since < wait:
        return Growth(growth.notified, since), False
    return Growth(growth.notified + more, now), True


def _lost_workers(first_seen: Mapping[str, float], reading: CrawlReading) -> list[Alarm]:
    """Returns an alarm for each period in which workers died, once all deaths of the period are known."""
    periods: dict[int, list[str]] = {}
    for worker, when in sorted(reading.lost.items()):
        periods.setdefault(int(when // LOST_SECONDS), []).append(worker)
    alarms = []
    for period, workers in sorted(periods.items()):
        untold = [worker for worker in workers if first_seen[worker] != NOTIFIED]
        is_over = reading.engine_now >= (period + 2) * LOST_SECONDS
        is_sure = all(reading.now - first_seen[worker] >= LOST_SECONDS for worker in untold)
        if untold and is_over and is_sure:
            later = f" and {len(workers) - len(untold)}" if len(untold) < len(workers) else ""
            alarms.append(_lost_alarm(f"{period}{later}", untold, reading.workers))
    return alarms


def _lost_alarm(mark: str, workers: Sequence[str], left: int) -> Alarm:
    number = counted(len(workers), "worker")
    rest = (
        f"The URLs that they had leased go to {counted(left, 'other worker')}."
        if left
        else "No worker is left: run the same command to continue. A scheduler does so for its jobs."
    )
    lines = [f"{number} ended without signing off: killed, or cut off from the engine. {rest}"]
    lines += workers[:_MOST_NAMED]
    lines += [f"and {len(workers) - _MOST_NAMED} more"] if len(workers) > _MOST_NAMED else []
    return Alarm("WORKER", mark, f"{number} lost", "\n".join(lines), lost=tuple(workers))
