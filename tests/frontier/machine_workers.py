"""The worker rules of the frontier's state machine; calls may be repeated, and replies lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.frontier.draws import (
    BRIEF,
    HOSTS,
    HOUR,
    SIBLINGS,
    crawls,
    gaps,
    hosts,
    passed,
    pauses,
    sent,
    settlements,
    urls,
    workers,
)
from tests.frontier.machine import SHARDS, Machine, milliseconds
from tests.frontier.pages import hash_of
from tests.model import Entry
from webcrawl.engine.scripts import Call
from webcrawl.errors import EngineUnavailable
from webcrawl.frontier import Candidate, Lease, LeaseReport, Settlement

Worker = tuple[str, bool]
"""Crawl, and whether its leases are brief."""
Settled = tuple[int, str, float, str, int, int]
"""Index, verdict, delay in seconds, reason, pages and bytes."""
WAITS = 3000
"""ms for which a crawl that wanted a host counts as still wanting it."""
LOOKS_AGAIN = 200
QUANTUM = 5
"""Number of URLs in a lease while another crawl wants the host."""


@dataclass
class LateCall:
    """A lease call that its worker gave up waiting for before the server received it."""

    worker: Worker
    call: Call
    count: int
    void: bool = False
    """Whether the worker has called `regain` since, which makes the server ignore the call."""


class WorkerMachine(Machine):
    """`sent` is how often a call is made: twice if its reply was lost. All replies are compared, as each could be the
    reply to another worker's call.
    """

    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self.leases: list[tuple[str, Lease]] = []
        """All leases ever given to workers; rules also use stale ones."""
        self.lost_leases: dict[Worker, list[Lease]] = {}
        """Leases in replies that were lost."""
        self.late: list[LateCall] = []
        self.tokens = dict.fromkeys(range(SHARDS), 0)
        """Shard -> the latest token."""
        self.adds = 0

    @rule(crawl=crawls, batch=st.lists(urls, min_size=1, max_size=8), sent=sent)
    def add(self, crawl: str, batch: list[tuple[str, int, int, bool, int]], sent: int = 1) -> None:
        candidates, expected = [], []
        for host, number, level, tested, depth in batch:
            self.adds += 1
            path = f"/{number}" if tested else f"/{number}?again={self.adds % 50}"
            fingerprint = hash_of(host + path) if tested else None
            candidates.append(Candidate(host, path, fingerprint, level, depth, is_fixed=self.low_share > 0))
            expected.append((host, Entry(path, level, depth), fingerprint))
        for _ in range(sent):
            assert self.run(self.frontier(crawl).add(candidates)) == self.models[crawl].add(expected)

    @rule(crawl=crawls, host=hosts, level=st.sampled_from([3, 3, 7, -5, 8]), number=st.integers(5, 30))
    def add_many(self, crawl: str, host: str, level: int, number: int) -> None:
        self.add(crawl, [(host, 0, level, False, 0)] * number)

    @rule(worker=workers, wanted=st.integers(1, 4), count=st.integers(1, 4), ms=passed)
    def lease(self, worker: Worker, wanted: int, count: int, ms: int = 0) -> None:
        self.time_passes(ms)
        self.regain(worker)
        waiting = self.contents(worker[0]).waiting
        leases = self.run(self.frontier(*worker).lease(wanted, count))
        assert len(leases) <= wanted
        self._compare(worker, leases, count, waiting, everywhere=len(leases) < wanted)
        self.leases += [(worker[0], lease) for lease in leases]

    @rule(worker=workers, wanted=st.integers(1, 4), count=st.integers(1, 4), late=st.booleans())
    def lease_with_lost_reply(self, worker: Worker, wanted: int, count: int, late: bool) -> None:
        """The reply is lost, or (`late`) the call has not arrived yet."""
        self.regain(worker)
        waiting = self.contents(worker[0]).waiting
        self.engine.losing, self.engine.lost = "late" if late else "reply", []
        with pytest.raises(EngineUnavailable):
            self.run(self.frontier(*worker).lease(wanted, count))
        self.engine.losing = ""
        self.lost_leases[worker] = []
        if late:
            self.late += [LateCall(worker, call, count) for call, _ in self.engine.lost]
        else:
            self._record_lost_leases(
                worker, [raw for _, reply in self.engine.lost for raw in reply], count, waiting
            )

    @rule(data=st.data())
    def late_call_arrives(self, data: st.DataObject) -> None:
        if not self.late:
            return
        late = self.late.pop(data.draw(st.integers(0, len(self.late) - 1)))
        waiting = self.contents(late.worker[0]).waiting
        given = self.run(self.engine.run(late.call))
        if late.void:
            assert given == []
        else:
            self._record_lost_leases(late.worker, given, late.count, waiting)

    def _record_lost_leases(self, worker: Worker, given: list[Any], count: int, waiting: set[str]) -> None:
        leases = [Lease.decode(raw) for raw in given]
        self._compare(worker, leases, count, waiting, everywhere=False)
        self.lost_leases[worker] += leases

    @rule(worker=workers, lost=st.booleans(), ms=passed)
    def ask_again(self, worker: Worker, lost: bool, ms: int) -> None:
        self.time_passes(ms)
        self.regain(worker, lost=lost)

    def regain(self, worker: Worker, *, lost: bool = False) -> None:
        """The worker gets its leases from lost replies that are still valid."""
        if worker not in self.lost_leases:
            return
        model = self.models[worker[0]]
        expected = [lease for lease in self.lost_leases.pop(worker) if model.holds(lease.host, lease.token)]
        for late in self.late:
            late.void |= late.worker == worker
        self.engine.losing, self.engine.lost = "reply" if lost else "", []
        if lost:
            with pytest.raises(EngineUnavailable):
                self.run(self.frontier(*worker).regain())
            self.lost_leases[worker] = expected
        else:
            leases = {lease.token: lease for lease in self.run(self.frontier(*worker).regain())}
            assert leases.keys() == {lease.token for lease in expected}
            for lease in leases.values():
                self._compare_urls(worker[0], lease)
            self.leases += [(worker[0], lease) for lease in leases.values()]
        self.engine.losing = ""
        for lease in expected:
            model.extend(lease.host, lasting(worker[1]))

    def _compare(
        self, worker: Worker, leases: list[Lease], count: int, waiting: set[str], *, everywhere: bool
    ) -> None:
        """Compare the reply to a lease call. `everywhere`: the call has searched all shards."""
        crawl, brief = worker
        model = self.models[crawl]
        taken = [lease.host for lease in leases]
        turns = [self.shared.unit(host) for host in taken]
        self._mirror_woken(crawl, everywhere=everywhere)
        self._mirror_parked(crawl, waiting, turns, everywhere=everywhere)
        ready, turn = model.ready(), self.shared.unit
        assert len(turns) == len(set(turns)), "two hosts that share their turns were leased"
        assert set(taken) <= ready.keys(), "a leased host was not ready"
        certain = {h for h in ready if self.is_free(crawl, h) and turn(h) not in turns} - waiting
        assert not (everywhere and certain), "a ready host was not found"
        for host in taken:
            left = [ready[one] for one in certain if self.shard(one) == self.shard(host)]
            higher = self.low_share or ready[host] <= min(left, default=9)
            assert higher, "a host of a higher level was passed over"
        for lease in leases:
            self._compare_lease(crawl, lease, count, brief)
        for host in (*HOSTS, *SIBLINGS):
            record, now = self.shared[host], self.time_of(host)
            if record.held > now and not (record.holder and model.holds(host, record.holder[1])):
                self.looks_again[crawl, host] = now + LOOKS_AGAIN
                self.contested[host] = now
            elif host in self.contested:
                self.contested[host] = now
                self.looks_again[crawl, host] = now + LOOKS_AGAIN

    def is_free(self, crawl: str, host: str) -> bool:
        """Whether a lease call must find the host if it is ready."""
        now = self.time_of(host)
        wanted = self.contested.get(host, now - WAITS)
        return self.looks_again.get((crawl, host), 0) <= now and wanted + WAITS <= now

    def _mirror_woken(self, crawl: str, *, everywhere: bool) -> None:
        """Mirror which retries became queued: a lease call that finds enough hosts does not look into every shard."""
        model = self.models[crawl]
        found = self.contents(crawl)
        for shard in range(self.keys[crawl].shards):
            later = [host for host, _, _ in model.later if self.shard(host) == shard]
            dated = [host for host, _ in model.scheduled if self.shard(host) == shard]
            fewer = found.later[shard] < len(later) or found.scheduled[shard] < len(dated)
            if fewer or everywhere:
                model.wake({*later, *dated})

    def _mirror_parked(self, crawl: str, waiting: set[str], turns: list[str], *, everywhere: bool) -> None:
        """Mirror which hosts were parked: a lease call parks the hosts with a spent budget that it reaches."""
        model, found = self.models[crawl], self.contents(crawl).parked
        exhausted, parked = model.exhausted(), found.keys() - model.parked.keys()
        assert parked <= exhausted, "a host with budget left was parked"
        if everywhere:
            free = {host for host in exhausted if self.is_free(crawl, host)} - waiting
            assert {host for host in free if self.shared.unit(host) not in turns} <= parked
        model.parked |= dict.fromkeys(parked, "budget")

    def _compare_lease(self, crawl: str, lease: Lease, count: int, brief: bool) -> None:
        shard = self.shard(lease.host)
        assert lease.token > self.tokens[shard]
        self.tokens[shard] = lease.token
        taken = self._expected_count(crawl, lease.host, count, len(lease.urls))
        self.models[crawl].lease(lease.host, lease.token, taken, lasting=lasting(brief))
        self._compare_urls(crawl, lease)

    def _compare_urls(self, crawl: str, lease: Lease) -> None:
        assert (lease.failures, lease.delay) == (
            self.shared.failures(lease.host),
            self.shared[lease.host].delay,
        )
        assert {
            url.index: (url.path, url.level, url.attempts, url.returns, url.dated) for url in lease.urls
        } == {
            index: (one.path, one.level, one.attempts, one.returns, one.dated)
            for index, one in self.models[crawl].leases[lease.host].entries.items()
        }

    def _expected_count(self, crawl: str, host: str, asked: int, got: int) -> int:
        """How many URLs a lease must have: fewer than asked for while some are in the store or another crawl waits."""
        if got == QUANTUM and host in self.contested:
            return got
        short = got < min(asked, len(self.models[crawl].queues.get(host, [])))
        return got if short and host in self.contents(crawl).waiting else asked

    def _draw_lease(self, data: st.DataObject) -> tuple[str, Lease] | None:
        if not self.leases:
            return None
        # draws the latest lease often, as it is more likely to be valid
        place = data.draw(st.integers(0, len(self.leases) - 1) | st.just(len(self.leases) - 1))
        return self.leases[place]

    @rule(
        data=st.data(),
        settled=settlements,
        more=st.integers(0, 4),
        better_than=st.sampled_from([None, None, 3, 7, -5, 1000]),
        brief=st.booleans(),
        gap=gaps,
        sent=sent,
    )
    def acknowledge(
        self,
        data: st.DataObject,
        settled: list[Settled],
        more: int,
        better_than: int | None,
        brief: bool,
        gap: float,
        sent: int,
    ) -> None:
        if (chosen := self._draw_lease(data)) is None:
            return
        chosen[1].gap = gap
        for _ in range(sent):
            self._acknowledge(*chosen, settled, more, better_than, brief)

    def _acknowledge(
        self,
        crawl: str,
        lease: Lease,
        settled: list[Settled],
        more: int,
        better_than: int | None,
        brief: bool,
    ) -> None:
        model, host, expected = self.models[crawl], lease.host, None
        reply = self.frontier(crawl, brief).acknowledge(
            lease, settlements_of(settled), more=more, better_than=better_than
        )
        urls = self.run(reply)
        if model.settles(host, lease.token):
            self._settle(crawl, lease, settled)
            contested = self.contested.get(host, -WAITS) + WAITS > self.time_of(host)
            more = 0 if self.is_waited_for(crawl, host) or (contested and not urls) else more
            more = self._expected_count(crawl, host, more, len(urls or []))
            kept = model.keep(host, more, lasting=lasting(brief), better_than=better_than)
            expected = [(index, one.path) for index, one in kept]
        else:
            model.refused += 1
        assert (None if urls is None else [(url.index, url.path) for url in urls]) == expected

    def _settle(self, crawl: str, lease: Lease, settled: list[Settled]) -> None:
        verdicts = [
            (index, verdict, milliseconds(seconds), *rest) for index, verdict, seconds, *rest in settled
        ]
        self.models[crawl].settle(lease.host, verdicts, gap=milliseconds(lease.gap))

    @rule(
        data=st.data(),
        settled=settlements,
        pause=pauses,
        quiet=st.sampled_from([HOUR, 60.0, 0.0]),
        failures=st.integers(0, 3),
        sent=sent,
    )
    def release(
        self,
        data: st.DataObject,
        settled: list[Settled],
        pause: float,
        quiet: float,
        failures: int,
        sent: int,
    ) -> None:
        if (chosen := self._draw_lease(data)) is None:
            return
        chosen[1].failures = failures
        for _ in range(sent):
            self._release(*chosen, settled, pause, quiet)

    def _release(
        self, crawl: str, lease: Lease, settled: list[Settled], pause: float = 0.0, quiet: float = HOUR
    ) -> None:
        model = self.models[crawl]
        good = model.settles(lease.host, lease.token)
        model.refused += not good
        if good:
            self._settle(crawl, lease, settled)
            if lease.host in self.contested:
                self.contested[lease.host] = self.time_of(lease.host)
        model.release(
            lease.host,
            lease.token,
            failures=lease.failures,
            pause=milliseconds(pause),
            quiet=milliseconds(quiet),
        )
        released = self.frontier(crawl).release(lease, settlements_of(settled), pause=pause, quiet=quiet)
        assert self.run(released) == good

    @rule(data=st.data(), handed=st.integers(0, 2), pause=pauses, failures=st.integers(0, 3), sent=sent)
    def hand_over(self, data: st.DataObject, handed: int, pause: float, failures: int, sent: int) -> None:
        """Release a host, and keep the lease for the URLs that were `handed` out."""
        if (chosen := self._draw_lease(data)) is None:
            return
        (crawl, lease), replies = chosen, []
        lease.failures = failures
        back = [url.index for url in lease.urls][handed:]
        settled = [Settlement(index, "back") for index in back]
        report = LeaseReport(lease, settled, pause=pause, quiet=HOUR, lets_go=True)
        for _ in range(sent):
            model, now = self.models[crawl], self.time_of(lease.host)
            if good := model.settles(lease.host, lease.token):
                if model.holds(lease.host, lease.token):
                    self.shared[lease.host].gap = milliseconds(lease.gap)
                ms = milliseconds(pause)
                model.let_go(lease.host, back, failures=failures, pause=ms, quiet=milliseconds(HOUR))
                if lease.host in self.contested:
                    self.contested[lease.host] = now
            else:
                model.refused += 1
                model.release(
                    lease.host,
                    lease.token,
                    failures=failures,
                    pause=milliseconds(pause),
                    quiet=milliseconds(HOUR),
                )
            self.run(self.frontier(crawl).settle_all([report], lambda _, urls, __: replies.append(urls)))
            assert replies.pop() == ([] if good else None)

    @rule(worker=workers, pages=st.integers(0, 3), sent=sent)
    def tally(self, worker: Worker, pages: int, sent: int) -> None:
        record, model = self.records[worker], self.models[worker[0]]
        tally, before = record.workers.tally({"pages": pages}), self.run(record.totals())
        for _ in range(sent):
            self.run(self.engine.run(tally))
        model.pages += pages
        totals = self.run(record.totals())
        assert totals.get("pages", 0) == model.pages
        assert totals.get("active_ms", 0) >= before.get("active_ms", 0)

    @rule(crawl=crawls, times=st.integers(1, 6), tended=st.booleans())
    def fetch(self, crawl: str, times: int, tended: bool) -> None:
        """Lease, settle and release like a real worker, to reach deep into the queues."""
        for _ in range(times):
            for plan in self.run(self.tails[crawl].plan([0, 1])) if tended else []:
                self.run(self.tails[crawl].carry_out(plan))
            known = len(self.leases)
            self.lease((crawl, False), 4, 8)
            for _, lease in self.leases[known:]:
                lease.failures = 0
                self._release(crawl, lease, [(url.index, "done", 0.0, "", 0, 0) for url in lease.urls])

    @rule(crawl=crawls, brief=st.booleans())
    def extend(self, crawl: str, brief: bool) -> None:
        model = self.models[crawl]
        leases = {lease.token: lease for name, lease in self.leases if name == crawl}
        good = {token for token, lease in leases.items() if model.settles(lease.host, token)}
        for token in good:
            model.extend(leases[token].host, lasting(brief))
        lost = {leases[token].host for token in leases.keys() - good}
        assert self.run(self.frontier(crawl, brief).extend(list(leases.values()))) == lost
        for token in good:
            assert leases[token].delay == self.shared[leases[token].host].delay

    @rule(crawl=crawls, everything=st.booleans(), delay=pauses, answer=st.sampled_from([0.0, 0.5]), ms=passed)
    def reap(self, crawl: str, everything: bool, delay: float, answer: float, ms: int) -> None:
        self.time_passes(ms)
        reaped = self.run(self.frontier(crawl).reap(everything=everything, delay=delay, answer=answer))
        assert reaped == self.models[crawl].reap(
            everything=everything, delay=milliseconds(delay), answer=milliseconds(answer)
        )


def lasting(brief: bool) -> int:
    """How long a lease of such a worker lasts, in ms."""
    return milliseconds(BRIEF if brief else HOUR)


def settlements_of(settled: list[Settled]) -> list[Settlement]:
    return [Settlement(*one) for one in settled]  # type: ignore[arg-type]
