"""Moves pages that are due to be fetched again from the metadata database into the frontier.

Each worker has a planner, and one of them plans at a time, by a lease in the engine. It claims due pages in the
database, which puts them off, and then queues them. If it dies in between, they are due again after that time. The
engine queues no page that it has queued, or that was fetched since the claim.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce

from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import InvalidURL, StoreError
from webcrawl.frontier import Candidate, Crawl, Frontier
from webcrawl.frontier.entry import DEFAULT_LEVEL
from webcrawl.frontier.figures import REVISITS
from webcrawl.frontier.planning import DROPPED, KNOWN, QUEUED, Planning, RecrawlState
from webcrawl.policies.change_rates import DAY
from webcrawl.policies.crawl_threshold import SMOOTHING_DAYS, Threshold
from webcrawl.policies.crawl_value import ExpectedFreshness, is_due, turn_days
from webcrawl.policies.revisit_dates import RevisitDates, days_after, days_between, value_now
from webcrawl.policies.traffic import CHECKS, FRESHNESS_CHK, ClassCounts, Traffic
from webcrawl.stores.due_pages import HELD, DuePage, DuePages
from webcrawl.stores.history import FAILED
from webcrawl.urls.canonical import split

logger = logging.getLogger(__name__)

_TURN_SECONDS = 2.0
_LEASE_SECONDS = 15.0
_AHEAD = timedelta(seconds=60)
_SHORTEST_AHEAD = timedelta(seconds=2 * _TURN_SECONDS)
_MOST_OPEN = 20_000
"""The most pages that are queued to be fetched again; each takes about 500 bytes of the engine."""
_MOST_OF_HOST = 200
_AT_ONCE = 1_000
_MOST_AGE = 300.0
"""Pages that were claimed so many seconds ago are not queued; see KEPT_MS in lua/common/plan.lua."""
_BETTER_HUBS = 1
"""So many levels better are pages that name new ones, or may do so: a wait behind other known pages costs most."""
_SHORTEST_WAIT = timedelta(seconds=1)
_SHORTEST_LOOK = timedelta(seconds=10)
"""A page that is queued already is looked at again after its interval between two visits, at least this."""
_LOOKED_AT = 5_000
"""So many due pages are looked at for those of a class that the backlog of others keeps out, each time."""
_LOOKED_AT_EACH = 4
"""So many pages are looked at for each that a worker has room for: they may be of hosts of other workers."""
_EARLY = timedelta(days=100)
_LATEST = datetime.max.replace(tzinfo=UTC)
_MOST_EARLY = 100
_TURNS_AHEAD = 2
"""The pages that a class needs by its share in so many turns are queued, as far as one worker may fetch them."""
_MOST_CORRECTED = 20_000
_MINUTE = 60.0
_LEAST_BUSY = 0.1
_LOOKS = 10
_SAMPLE = 500
_HOSTS_AT_ONCE = 20
_REVIEW_SECONDS = 3_600.0
_LEAST_VISITS = 100
"""Fewer visits say too little of the capacity of a crawl."""
_LAST_BEGINNING = SMOOTHING_DAYS * DAY
_LONGEST_BEGINNING = 3_600.0
"""Visits of earlier hours, in which new pages may have been fetched, say little of the capacity now."""
_LONGEST_SECONDS = 1e9
"""About 32 years; later dates would be no dates of a database."""


class RecrawlPlanner:
    """The planner of one worker. `retry_now` makes the worker look for hosts to lease; `counters` get the outcomes.

    While the crawl has nothing else to do, pages are fetched a little before they are due.
    """

    def __init__(
        self,
        frontier: Frontier,
        due_pages: DuePages,
        dates: RevisitDates,
        counters: Counter[str],
        retry_now: Callable[[], None],
    ) -> None:
        self._frontier = frontier
        self._planning = Planning(frontier.engine, frontier.keys, frontier.worker)
        self._workers = Crawl(frontier.engine, frontier.keys, frontier.worker).workers
        self._due_pages, self._dates = due_pages, dates
        self._counters, self._retry_now = counters, retry_now
        self._adopted: str | None = ""
        """The URL up to which pages without a plan got one; None when all have."""
        self._host_thresholds = HostThresholds(due_pages, dates)
        self._begins = False
        """Whether the threshold is computed from the capacity of the crawl, at once and in times twice as long.

        The first capacity says little: there are few known pages, and new ones may take most fetches.
        """
        self._next_beginning = 0.0
        """The least time, in seconds, from which the threshold is computed next."""
        self._minute = PlannedMinute()
        self._beginning = PlannedMinute()
        """What happened until the threshold follows from the capacity: a slow crawl needs more than a minute for it."""
        self._looked = ""
        """The URL up to which pages were looked at for the freshness of the crawl."""
        self._freshness: deque[ExpectedFreshness] = deque(maxlen=_LOOKS)
        self._is_behind = False
        """Whether more pages were due at the last turn than there was room for."""
        self._passed: dict[str, datetime | None] = {}
        """Class -> the date up to which due pages were looked at for it, in a backlog; None at its beginning."""
        self._counted: dict[str, ClassCounts] = {}
        """Class -> what was counted at the last turn (TRAFFIC)."""
        self._fetched: int | None = None
        """The fetches of all classes at the last turn (TRAFFIC)."""
        self._newest: datetime | None = None
        """The date up to which pages were due at the last turn."""
        self._wanted_checks = 0.0
        """How many fetches the shares of classes had given to known pages at the last turn (TRAFFIC)."""
        self._wanted: dict[str, datetime] = {}
        """URL -> the date that a spider gave it. These dates are not stored yet."""
        self._failure = ""
        self._task: asyncio.Task[None] | None = None
        self._stops = False

    def start(self) -> None:
        """Starts the task that plans."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ends the task, and gives the plan to another worker."""
        self._stops = True  # a call to the engine that ends just now may swallow the cancellation
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            with suppress(*UNAVAILABLE):
                await self._planning.leave()
        with suppress(StoreError):
            await self._store_dates()
        await asyncio.to_thread(self._due_pages.close)

    def keep_date(self, url: str, seconds: float) -> bool:
        """Keeps the date of a spider for a stored page; returns False for a date so soon that the engine keeps it."""
        wait = timedelta(seconds=min(seconds, _LONGEST_SECONDS))
        if wait < HELD:
            return False
        self._wanted[url] = datetime.now(UTC) + wait
        return True

    async def _store_dates(self) -> None:
        if not self._wanted:
            return
        dates, self._wanted = self._wanted, {}
        try:
            await asyncio.to_thread(self._due_pages.set_dates, dates)
        except BaseException:
            self._wanted = dates | self._wanted
            raise

    async def _run(self) -> None:
        while not self._stops:
            try:
                await self.turn()
                self._failure = ""
            except (StoreError, *UNAVAILABLE) as error:
                if str(error) != self._failure:
                    logger.warning("Pages that are due are not queued now, but later: %s", error)
                self._failure = str(error)
            except Exception:
                logger.exception("The plan of the recrawl failed, and is tried again")
            await asyncio.sleep(_TURN_SECONDS)

    async def turn(self) -> None:
        """Reports visits, and plans if this worker is the planner."""
        await self._store_dates()
        await asyncio.to_thread(self._due_pages.credit, self._dates.take_sources())
        outcomes = self._dates.take_outcomes()
        for outcome, number in outcomes.items():
            self._counters[f"{REVISITS}{outcome}"] += number
        turn = await self._planning.turn(sum(outcomes.values()), _LEASE_SECONDS)
        if turn.threshold is not None:
            self._dates.threshold = turn.threshold
        before = self._wanted_checks
        self._wanted_checks = self._frontier.traffic.wanted_checks if self._frontier.traffic else 0.0
        wanted = self._wanted_checks - before
        if not turn.plans:
            self._minute, self._beginning = PlannedMinute(), PlannedMinute()
            self._host_thresholds.forget()
            return
        if self._adopted is not None:
            self._adopted = await asyncio.to_thread(
                self._due_pages.adopt, self._dates, self._adopted, _AT_ONCE
            )
        self._minute.visits += turn.visits
        self._minute.wanted += wanted
        if not self._minute.turns:
            await asyncio.to_thread(self._due_pages.correct_visits, datetime.now(UTC), _MOST_CORRECTED)
        await self._move()
        self._begins = self._begins or turn.threshold is None
        await self._follow(turn.threshold)

    async def _follow(self, known: Threshold | None) -> None:
        """Lets the thresholds follow the load, once a minute."""
        seconds = time.monotonic() - self._minute.began
        if seconds < _MINUTE and known is not None:
            return
        await asyncio.to_thread(self._host_thresholds.review)
        now, counts = datetime.now(UTC), await self._planning.counts()
        stored = await asyncio.to_thread(self._due_pages.late, now)
        waited = (now - stored.since).total_seconds() if stored.since else 0.0
        late = counts.due + stored.pages
        self._beginning.add(self._minute)
        took = time.monotonic() - self._beginning.began
        if self._begins and took >= self._next_beginning and self._beginning.visits >= _LEAST_VISITS:
            room = self._beginning.room * DAY / took
            self._dates.threshold = await asyncio.to_thread(_threshold_of, self._due_pages, self._dates, room)
            self._next_beginning = max(_MINUTE, 2 * took)
            self._begins, self._beginning = self._next_beginning < _LAST_BEGINNING, PlannedMinute()
        else:
            self._dates.threshold = self._minute.followed(self._dates.threshold, seconds / DAY, late)
            if took >= max(_LONGEST_BEGINNING, self._next_beginning):
                self._beginning = PlannedMinute()
        state = RecrawlState(late, max(waited, counts.late), await asyncio.to_thread(self._look, now))
        await self._planning.set_state(self._dates.threshold, state)
        self._minute = PlannedMinute()

    def _look(self, now: datetime) -> float | None:
        """Returns the expected freshness of the pages that were looked at last; each call looks at some more."""
        some, last = self._due_pages.look(self._looked, _AT_ONCE)
        is_whole = not self._looked and last is None
        self._looked = last or ""
        total = ExpectedFreshness()
        for page in some:
            if known := page.known:
                days = days_between(page.tried_at, now)
                total = total.merged(self._dates.freshness(known, days))
        if is_whole:
            self._freshness.clear()
        self._freshness.append(total)
        total = reduce(ExpectedFreshness.merged, self._freshness)
        return total.share if total.weight else None

    async def _move(self) -> None:
        """Queues what is due, as far as there is room."""
        counts = await self._planning.counts()
        room, minute, has_due = _MOST_OPEN - counts.open, self._minute, counts.due > 0
        minute.turns += 1
        until = datetime.now(UTC) + max(_SHORTEST_AHEAD, min(_AHEAD, self._shortest))
        if self._is_behind and self._frontier.traffic:
            room -= await self._move_classes(self._frontier.traffic.most_of_known, room, until)
        self._is_behind, self._newest = True, until
        while room > 0:
            most = min(room, _AT_ONCE)
            now = datetime.now(UTC)
            claimed = await self._claim(until, most)
            has_due = has_due or any(page.next_due <= now for page in claimed)
            room -= most
            if len(claimed) < most:
                self._is_behind = False
                break
        if not self._is_behind and self._frontier.traffic:
            await self._claim_missing(self._frontier.traffic, room, counts.classes)
        if not has_due and not (await self._frontier.counts()).open:
            minute.idle += 1
            await self._claim(datetime.now(UTC) + _EARLY, _MOST_EARLY, early=self._is_due_early)

    async def _claim_missing(self, traffic: Traffic, room: int, classes: Sequence[Mapping[str, int]]) -> None:
        """Queues pages of the classes that lack fetches by their shares, or will soon, before they are due.

        The first by their dates come first, and none sooner than the shortest time after its last visit. `classes`:
        how many pages of each are queued in each shard.

        Each worker gets enough to have the whole share of a class by itself, as far as it can fetch. The queue of one
        worker would otherwise have the pages for which another has connections.
        """
        owners = await self._workers.shares()
        workers = len({*owners.values()}) or 1
        fetched, self._fetched = traffic.all_fetches - (self._fetched or 0), traffic.all_fetches
        for name in CHECKS:
            counted = traffic.counts(name)
            before, self._counted[name] = self._counted.get(name, counted), counted
            wanted = max(0.0, counted.missing) + _TURNS_AHEAD * (counted.wanted - before.wanted)
            most = min(wanted, max(wanted, _TURNS_AHEAD * fetched) / workers)
            rooms = dict.fromkeys((owners.get(shard, "") for shard in range(len(classes))), most)
            for shard, queued in enumerate(classes):
                rooms[owners.get(shard, "")] -= queued[name]
            room -= await self._claim_for(rooms, owners, name, room)

    async def _claim_for(
        self, rooms: Mapping[str, float], owners: Mapping[int, str], name: str, most: int
    ) -> int:
        """Queues pages of a class before they are due, as many for each worker as it has room for.

        `owners`: shard -> its worker. Returns how many were claimed.
        """
        left = {worker: int(room) for worker, room in rooms.items() if room >= 1}
        most, passed = min(most, sum(left.values())), self._passed.get(name)
        if most <= 0:
            return 0
        last, looked = passed, 0

        def is_wanted(page: DuePage, now: datetime) -> bool:
            nonlocal last, looked
            last, looked = page.next_due, looked + 1
            worker = owners.get(self._shard_of(page), "")
            if left.get(worker, 0) <= 0 or not self._may_be_early(page, now):
                return False
            left[worker] -= 1
            return True

        end = await asyncio.to_thread(self._due_pages.end_of, _LOOKED_AT, passed, _LATEST)
        at_once = min(_AT_ONCE, _LOOKED_AT_EACH * most)
        claimed = await self._claim(end, at_once, after=passed, fetch_class=name, early=is_wanted)
        if not any(left.values()):
            self._passed[name] = None
        elif looked == at_once:
            self._passed[name] = last
        else:
            self._passed[name] = end if end < _LATEST else None
        return len(claimed)

    def _shard_of(self, page: DuePage) -> int:
        """Returns the shard of a page's host; -1 if its URL cannot be queued."""
        try:
            return self._frontier.keys.shard(split(page.url)[0])
        except InvalidURL:
            return -1

    async def _move_classes(self, shares: Mapping[str, float], room: int, until: datetime) -> int:
        """Queues due pages of each class by its share of the room, wherever they are in the backlog; returns how many.

        The pages that have become due since the last turn come first, then those of the next part of the backlog.
        """
        moved = 0
        for name, share in shares.items():
            left, newest, passed = math.ceil(max(0, room) * share), self._newest, self._passed.get(name)
            if left and newest:
                left -= len(await self._claim(until, left, after=newest, fetch_class=name))
            if left:
                end = await asyncio.to_thread(self._due_pages.end_of, _LOOKED_AT, passed, until)
                claimed = await self._claim(end, left, after=passed, fetch_class=name)
                passed = claimed[-1].next_due if len(claimed) == left else end if end < until else None
                left -= len(claimed)
            self._passed[name] = passed
            moved += math.ceil(max(0, room) * share) - left
        return moved

    async def _claim(
        self,
        until: datetime,
        most: int,
        *,
        early: Callable[[DuePage, datetime], bool] | None = None,
        after: datetime | None = None,
        fetch_class: str = "",
    ) -> Sequence[DuePage]:
        """Claims pages that are due until a time, and queues them; returns the claimed pages.

        With a class, claims pages of this class only, of those that are due after a time if that is given. With
        `early`, claims those for which this is true now, before they are due.
        """
        now, began = datetime.now(UTC), time.monotonic()
        claimed = await asyncio.to_thread(
            self._due_pages.claim,
            *(now, until, most),
            (lambda page: early(page, now)) if early else (lambda _: True),
            after=after,
            fetch_class=fetch_class,
            tried_before=now - self._shortest if early else None,
        )
        age = time.monotonic() - began
        if not claimed or age > _MOST_AGE:
            return claimed
        dates: list[tuple[DuePage, datetime | None]] = []
        pages: list[tuple[DuePage, Candidate]] = []
        for page in self._best_first(claimed, now):
            later = None if early else self._new_date(page, now)
            if later is None and (candidate := _candidate_of(page)):
                pages.append((page, candidate))
            else:
                dates.append((page, later))
        waits = [0.0 if early else max(0.0, (page.next_due - now).total_seconds()) for page, _ in pages]
        rows = [(candidate, wait) for (_, candidate), wait in zip(pages, waits, strict=True)]
        try:
            outcomes = await self._planning.add(rows, age, _MOST_OF_HOST, self._frontier.traffic)
        except UNAVAILABLE:
            # the engine may have queued some of the pages, and says so when they are claimed again
            await asyncio.to_thread(self._due_pages.put_off, [(page, page.next_due) for page in claimed])
            raise
        # pages of a host that has enough of them, or that are far too early, say nothing of the capacity of the crawl
        self._minute.due += sum(
            outcome == QUEUED and (early is None or self._is_due_early(page, now))
            for (page, _), outcome in zip(pages, outcomes, strict=True)
        )
        for (page, _), outcome in zip(pages, outcomes, strict=True):
            if outcome == DROPPED:
                dates.append((page, None))
            elif outcome == KNOWN:
                # the visit of the page may be stored and not settled yet, and then nothing else sets its date
                interval = page.next_due - page.tried_at
                dates.append((page, now + min(HELD, max(_SHORTEST_LOOK, interval))))
            elif outcome > 0:
                host, _ = split(page.url)
                self._host_thresholds.note(host, outcome / 1000)
                wait = timedelta(milliseconds=outcome * _MOST_OF_HOST / 2)
                dates.append((page, now + min(HELD, max(_SHORTEST_WAIT, wait))))
        await asyncio.to_thread(self._due_pages.put_off, dates)
        self._retry_now()
        return claimed

    def _may_be_early(self, page: DuePage, now: datetime) -> bool:
        """Whether a page may be fetched long before it is due, for the share of its class."""
        if page.is_date_set or page.state in FAILED or (known := page.known) is None:
            return False
        return days_between(page.tried_at, now) >= self._dates.shortest_days(known)

    @property
    def _shortest(self) -> timedelta:
        return timedelta(days=self._dates.bounds.shortest)

    def _is_due_early(self, page: DuePage, now: datetime) -> bool:
        days = days_between(page.tried_at, now)
        if page.is_date_set or not page.is_alive or days < self._dates.bounds.shortest:
            return False
        if (known := page.known) is None:
            return False
        return is_due(self._dates.next_days(known), days)

    def _new_date(self, page: DuePage, now: datetime) -> datetime | None:
        """Returns the date of a page that is not to be fetched yet, since the threshold has risen; None if it is."""
        if page.is_date_set or not page.is_alive or (known := page.known) is None:
            return None
        days = days_between(page.tried_at, max(now, page.next_due))
        next_days = self._dates.next_days(known)
        if is_due(next_days, days):
            return None
        return days_after(page.tried_at, turn_days(next_days, days))

    def _best_first(self, pages: Sequence[DuePage], now: datetime) -> list[DuePage]:
        """Returns pages by the value of their fetch now, the best first."""

        def value(page: DuePage) -> float:
            if (known := page.known) is None:
                return 0.0
            days = days_between(page.tried_at, now)
            if known.signals:
                return self._dates.candidate(known).value(days)
            return value_now(self._dates.weight(known), page.change_rate, days, page.link_rate)

        return sorted(pages, key=value, reverse=True)


@dataclass(slots=True)
class PlannedMinute:
    """What happened, since the threshold was set: visits of known pages, pages that became due, turns, idle turns.

    `wanted`: how many fetches the shares of classes gave to known pages (TRAFFIC).
    """

    began: float = field(default_factory=time.monotonic)
    visits: int = 0
    due: int = 0
    turns: int = 0
    idle: int = 0
    wanted: float = 0.0

    def add(self, other: PlannedMinute) -> None:
        """Adds what happened in another time."""
        self.visits, self.due = self.visits + other.visits, self.due + other.due
        self.turns, self.idle = self.turns + other.turns, self.idle + other.idle
        self.wanted += other.wanted

    def followed(self, threshold: Threshold, days: float, late: int) -> Threshold:
        """Returns the threshold after these days. It falls until known pages take up what is theirs by the shares."""
        return threshold.followed(days, self.room, self.due, late)

    @property
    def room(self) -> float:
        """How many pages could have been fetched: idle turns and shares of classes show how many more than were."""
        return max(self.wanted, max(1, self.visits) / max(_LEAST_BUSY, 1 - self.idle / max(1, self.turns)))


class HostThresholds:
    """Sets the thresholds of hosts that bear fewer fetches than are due, so that they get their best pages.

    A threshold follows from a sample of the host's pages and the time between two requests. It is computed again each
    hour, and ends when it is below that of the crawl.
    """

    def __init__(self, due_pages: DuePages, dates: RevisitDates) -> None:
        self._due_pages, self._dates = due_pages, dates
        self._gaps: dict[str, float] = {}
        self._reviews: dict[str, float] = {}
        """Host -> the monotonic time of its next review, in this order."""

    def note(self, host: str, gap: float) -> None:
        """Notes that a host has more due pages than it bears, with so many seconds between two requests."""
        self._gaps[host] = gap
        self._reviews.setdefault(host, 0.0)

    def forget(self) -> None:
        """Ends all thresholds, because another worker plans."""
        self._gaps, self._reviews = {}, {}
        self._dates.of_hosts.clear()

    def review(self) -> None:
        """Computes the thresholds of hosts that are new or were computed an hour ago, of some hosts at a time."""
        now = time.monotonic()
        due = sorted((at, host) for host, at in self._reviews.items() if at <= now)
        for _, host in due[:_HOSTS_AT_ONCE]:
            threshold = _threshold_of(self._due_pages, self._dates, DAY / max(0.001, self._gaps[host]), host)
            if threshold > self._dates.threshold:
                self._dates.of_hosts[host], self._reviews[host] = threshold, now + _REVIEW_SECONDS
            else:
                self._dates.of_hosts.pop(host, None)
                del self._gaps[host], self._reviews[host]


def _threshold_of(
    due_pages: DuePages, dates: RevisitDates, fetches_a_day: float, host: str | None = None
) -> Threshold:
    """Returns the threshold of a host or of the crawl that has so many fetches a day."""
    sample, number = due_pages.sample(_SAMPLE, host)
    known = [page for row in sample if row.is_alive and (page := row.known)]
    if not known:
        return dates.threshold
    alive = number * len(known) / len(sample)
    return Threshold.for_capacity(
        [dates.candidate(page) for page in known], alive, fetches_a_day, dates.bounds
    )


def _candidate_of(page: DuePage) -> Candidate | None:
    """Returns the queue entry of a page; None if its URL cannot be queued."""
    try:
        host, path = split(page.url)
    except InvalidURL:
        return None
    extra = base64.b64decode(page.recrawl_request) if page.recrawl_request else None
    return Candidate(
        *(host, path, None),
        level=DEFAULT_LEVEL - _BETTER_HUBS * (page.fetch_class == FRESHNESS_CHK or page.is_explored),
        depth=page.depth,
        referrer=page.referrer,
        extra=extra,
        fetch_class=page.fetch_class,
    )
