"""How fresh known pages are by several policies of fetching them again: simulated, with the product's own code.

    make bench-recrawl [ARGS="--cycle 30 --zipf 0 --json FILE"]

All pages have been fetched once, in random order. Then each policy has as many fetches as a uniform one that fetches
each page once a cycle. Prints the freshness by weight in some cycles, the share of the optimum after ten, and the least
share of that of the uniform policy on a day. With `--seeds`, these are medians of several webs, and the worst day of
all. The exit status is 1 if this project misses a bar. Optimum, Azar and proportional know the rates of change; the
others begin without any knowledge.

Single days of a small web vary by chance, so that a uniform policy in another order is also worse on some days. So with
`--seeds`, the bar for days is that for the mean of all webs on each day, less two standard errors.
"""

from __future__ import annotations

import heapq
import sys
from collections import defaultdict
from collections.abc import Callable

import numpy as np

from benchmarks.changing_web import ChangingWeb, Integers, Reals, changing_web
from benchmarks.command import command_line, table, write_figures
from webcrawl.policies.change_rates import FIRST_GUESS, ChangeHistory, PageVisit, RatePool, pooled_prior
from webcrawl.policies.change_signals import NO_SIGNALS, SignalCounts, evidence_of
from webcrawl.policies.crawl_threshold import SMOOTHING_DAYS, Threshold
from webcrawl.policies.crawl_value import Bounds, RecrawlCandidate, is_due, next_visit_days, turn_days

LEAST_OF_OPTIMUM, LEAST_OF_UNIFORM = 0.95, 0.98
CYCLES = 14
STEP = 1 / 24
"""Days between two plans."""
SAMPLE = 500
EARLY_TURNS = 2
"""Pages that are looked at early in a step, for each page that could be fetched."""
Schedule = tuple[Integers, Reals]
"""Pages, and the days of their visits, in no order."""


class Adaptive:
    """Nutch's AdaptiveFetchSchedule with its defaults, which begins with the interval of a uniform policy."""

    def start(self, visits: Reals, fetches: float) -> list[float]:
        """Returns when each page is due, which was visited at this time; there are so many fetches a day."""
        self.changes, self.intervals = visits.tolist(), [len(visits) / fetches] * len(visits)
        return [visit + self.intervals[0] for visit in self.changes]

    def announced(self, page: int, time: float) -> float | None:
        """Returns when a page is due of which a change is announced; None if this changes nothing."""
        return None

    def waits(self, page: int, time: float) -> float | None:
        """Returns the new date of a page whose turn has come, or None if it is to be fetched."""
        return None

    def visited(self, page: int, time: float, *, changed: bool) -> float:
        """Returns when a page is due that was visited."""
        interval = self.intervals[page] * (0.8 if changed else 1.4)
        if changed:
            self.changes[page] = time
        unchanged = time - self.changes[page]
        interval = self.intervals[page] = min(365.0, max(60 / 86_400, interval, unchanged))
        return float(time - 0.3 * unchanged + interval)

    def planned(self, days: float, room: float, due: int, late: int) -> bool:
        """Hears of each plan; returns whether pages may be fetched early."""
        return False


class Ours:
    """The policy of this project: what a page's row and the pools keep is in lists and dictionaries."""

    def __init__(self, web: ChangingWeb, *, signals: bool) -> None:
        self.weights, self.hosts, self.patterns = (column.tolist() for column in web[:1] + web[2:4])
        self.announces = web.announces.tolist() if signals else [False] * len(self.weights)
        self.histories = [ChangeHistory()] * len(self.weights)
        self.rates = [FIRST_GUESS] * len(self.weights)
        self.announcements: list[list[float]] = [[] for _ in self.weights]
        self.pools: defaultdict[str, RatePool] = defaultdict(RatePool)
        self.signals: defaultdict[int, SignalCounts] = defaultdict(SignalCounts)

    def start(self, visits: Reals, fetches: float) -> list[float]:
        self.visits, self.fetches = visits.tolist(), fetches
        self.took, self.next_beginning = 0.0, STEP
        self.threshold = self._sampled()
        return [visit + turn_days(self._next_days(page)) for page, visit in enumerate(self.visits)]

    def announced(self, page: int, time: float) -> float | None:
        if not self.announces[page]:
            return None
        self.announcements[page].append(time - self.visits[page])
        return float(self.visits[page] + self._next_days(page))

    def waits(self, page: int, time: float) -> float | None:
        days, age = self._next_days(page), time - self.visits[page]
        return None if is_due(days, age) else self.visits[page] + turn_days(days, age)

    def visited(self, page: int, time: float, *, changed: bool) -> float:
        host, announcements = self.hosts[page], self.announcements[page]
        dated = announcements[0] if changed and self._candidate(page).evidence.is_believed else None
        visit = PageVisit(time - self.visits[page], changed, dated=dated)
        if self.announces[page]:
            learned = self.signals[host].learned(visit, len(announcements), self.rates[page])
            self.signals[host] = self.signals[host].merged(learned)
        pools = "crawl", f"host {host}", f"pattern {self.patterns[page]}"
        history = self.histories[page].after(visit)
        rate = history.rate(pooled_prior(*(self.pools[name] for name in pools)))
        self.histories[page], delta = history.pooled(rate)
        for name in pools:
            self.pools[name] = self.pools[name].merged(delta)
        self.rates[page], self.visits[page], self.announcements[page] = rate, time, []
        return time + turn_days(self._next_days(page))

    def planned(self, days: float, room: float, due: int, late: int) -> bool:
        self.took += days
        if self.next_beginning < SMOOTHING_DAYS and self.took >= self.next_beginning:
            self.threshold, self.next_beginning, self.took = self._sampled(), 2 * self.took, 0.0
        else:
            self.threshold = self.threshold.followed(days, room, due, late)
        return True

    def _sampled(self) -> Threshold:
        """Returns the threshold that a sample needs; at first, the planner computes it again after some time."""
        pages = range(0, len(self.visits), max(1, len(self.visits) // SAMPLE))
        sample = [self._candidate(page) for page in pages]
        return Threshold.for_capacity(sample, len(self.visits), self.fetches)

    def _candidate(self, page: int) -> RecrawlCandidate:
        rate, evidence = self.rates[page], NO_SIGNALS
        if self.announces[page]:
            signal = self.signals[self.hosts[page]], len(self.announcements[page])
            evidence = evidence_of([signal], rate)
        return RecrawlCandidate(self.weights[page], rate, evidence)

    def _next_days(self, page: int) -> float:
        return next_visit_days(self._candidate(page), self.histories[page], self.threshold.value, Bounds())


class Plan:
    """The plan of a crawl: pages by the time when they are due, from which each step takes what can be fetched."""

    def __init__(self, web: ChangingWeb, policy: Adaptive | Ours, visits: Reals, fetches: float) -> None:
        self.web, self.policy, self.visits = web, policy, visits.copy()
        self.due = np.array(policy.start(visits, fetches))
        self.queue = [(time, page) for page, time in enumerate(self.due.tolist())]
        heapq.heapify(self.queue)
        self.room, self.left = fetches * STEP, 0.0
        self.log: list[tuple[int, float]] = []
        events = ((time, page) for page, times in enumerate(web.announcements) for time in times.tolist())
        self.events = sorted(event for event in events if event[0] > 0)[::-1]
        self.may_be_early = False

    def run(self, days: float) -> Schedule:
        """Simulates so many days; returns the visits."""
        late = int((self.due < 0).sum())
        for step in range(round(days / STEP)):
            now = step * STEP
            self._announce(now)
            self.left = min(self.left, self.room) + self.room
            due = -late + self._step(now)
            late = int((self.due <= now).sum())
            self.may_be_early = self.policy.planned(STEP, self.room, due + late, late)
        return np.array([page for page, _ in self.log]), np.array([time for _, time in self.log])

    def _announce(self, now: float) -> None:
        while self.events and self.events[-1][0] <= now:
            time, page = self.events.pop()
            if time > self.visits[page] and (due := self.policy.announced(page, time)) is not None:
                self._put(page, min(due, self.due[page]))

    def _step(self, now: float) -> int:
        """Fetches what is due, and others early if there is room; returns the number of fetches."""
        fetches, fetched = int(self.left), 0
        turns = EARLY_TURNS * fetches if self.may_be_early else 0
        time, gap = now, STEP / max(1, fetches)
        while fetches and (turns or self.queue[0][0] <= now):
            due, page = heapq.heappop(self.queue)
            if due != self.due[page]:
                continue
            turns -= due > now and turns > 0
            if (later := self.policy.waits(page, time)) is not None:
                self._put(page, later)
                continue
            self._put(page, self._visit(page, time))
            fetches, time, fetched = fetches - 1, time + gap, fetched + 1
            self.left -= 1
        return fetched

    def _visit(self, page: int, time: float) -> float:
        changes = self.web.changes[page]
        between = np.searchsorted(changes, (self.visits[page], time), side="right")
        self.visits[page] = time
        self.log.append((page, time))
        return self.policy.visited(page, time, changed=bool(between[1] > between[0]))

    def _put(self, page: int, due: float) -> None:
        self.due[page] = due
        heapq.heappush(self.queue, (due, page))


def steady(random: np.random.Generator, rates: Reals, days: float) -> Schedule:
    """Visits at regular times, so many a day of each page."""
    times = [
        np.arange(random.uniform(0, 1 / rate), days, 1 / rate) if rate else np.empty(0) for rate in rates
    ]
    return np.repeat(np.arange(len(rates)), [len(of_page) for of_page in times]), np.concatenate(times)


def at_random(random: np.random.Generator, rates: Reals, days: float) -> Schedule:
    """Visits at random times, on average so many a day of each page."""
    pages = np.repeat(np.arange(len(rates)), random.poisson(rates * days))
    return pages, random.uniform(0, days, len(pages))


def priced(visits: Callable[[float], Reals], fetches: float) -> Reals:
    """Returns the visits a day of each page at the price of a visit at which there are so many in all."""
    low, high = 1e-9, 1e9
    for _ in range(80):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if visits(middle).sum() > fetches else (low, middle)
    return visits(high)


def optimum(web: ChangingWeb, price: float) -> Reals:
    """Cho and Garcia-Molina, 2003: a page is visited when the weighted freshness that is gained has the price."""
    aim = price * web.rates / web.weights
    low, high = np.full(len(aim), 1e-9), np.full(len(aim), 100.0)
    for _ in range(60):
        changes = np.sqrt(low * high)
        enough = 1 - (1 + changes) * np.exp(-changes) > aim
        low, high = np.where(enough, low, changes), np.where(enough, changes, high)
    return np.where(aim < 1, web.rates / high, 0)


def azar(web: ChangingWeb, price: float) -> Reals:
    """Azar and others, 2018: the best visits a day at random times."""
    return np.maximum(0, np.sqrt(web.weights * web.rates / price) - web.rates)


def schedules(
    web: ChangingWeb, visits: Reals, cycle: float, days: float
) -> dict[str, Callable[[], Schedule]]:
    """Returns name of a policy -> function that returns its visits after the first of each page."""
    fetches, random = len(visits) / cycle, np.random.default_rng(0)

    def uniform(phases: Reals) -> Schedule:
        times = phases + cycle * np.arange(1, round(days / cycle) + 1)[:, None]
        return np.tile(np.arange(len(visits)), len(times)), times.ravel()

    def planned(policy: Adaptive | Ours) -> Callable[[], Schedule]:
        return lambda: Plan(web, policy, visits, fetches).run(days)

    best = priced(lambda price: optimum(web, price), fetches)
    by_azar = priced(lambda price: azar(web, price), fetches)
    return {
        "uniform": lambda: uniform(visits),
        "uniform, in another order": lambda: uniform(np.random.default_rng(1).permutation(visits)),
        "proportional to changes": lambda: steady(random, web.rates * fetches / web.rates.sum(), days),
        "Nutch, AdaptiveFetchSchedule": planned(Adaptive()),
        "Azar 2018, at random times": lambda: at_random(random, by_azar, days),
        "Azar 2018, at regular times": lambda: steady(random, by_azar, days),
        "optimum": lambda: steady(random, best, days),
        "webcrawl": planned(Ours(web, signals=False)),
        "webcrawl, with announcements": planned(Ours(web, signals=True)),
    }


def curves_of(pages: int, cycle: float, zipf: float, at_work: float, seed: int) -> dict[str, Reals]:
    """Returns name of a policy -> freshness by weight on each day."""
    days = cycle * CYCLES
    web = changing_web(pages, -cycle, days, zipf, seed, at_work)
    first = np.random.default_rng(seed).permutation(pages) / pages * cycle - cycle
    edges, curves = np.arange(0, days + 0.5), {}
    for name, schedule in schedules(web, first, cycle, days).items():
        fetched, times = schedule()
        curves[name] = web.freshness(np.append(np.arange(pages), fetched), np.append(first, times), edges)
        print(f"  {name}: {len(fetched) / pages / CYCLES:.3f} fetches of a page in a cycle", file=sys.stderr)
    return curves


def least_of_days(of_webs: Reals) -> float:
    """Returns the least value of a day of a web, or of the mean of several webs less two standard errors."""
    if len(of_webs) == 1:
        return float(of_webs.min())
    errors = of_webs.std(0, ddof=1) / np.sqrt(len(of_webs))
    return float((of_webs.mean(0) - 2 * errors).min())


def main() -> int:
    parser = command_line(
        __doc__,
        json=True,
        pages=20_000,
        cycle=(7.0, "days in which a uniform policy fetches all pages"),
        zipf=(1.0, "exponent of the weights; 0: all are the same"),
        at_work=(0.0, "share of hosts with working hours"),
        seed=1,
        seeds=(1, "number of webs; prints medians, and the worst least share"),
    )
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.seeds)
    web = options.pages, options.cycle, options.zipf, options.at_work
    of_seeds = [curves_of(*web, seed) for seed in seeds]
    share, least, rows = {}, {}, []
    columns = "policy | first cycle: | fifth: | after ten: | of the optimum: | least of uniform, a day:"
    columns += " | least mean:" if options.seeds > 1 else ""
    for name in of_seeds[0]:
        cycles = np.array([curves[name].reshape(CYCLES, -1).mean(1) for curves in of_seeds])
        best = np.array([curves["optimum"].reshape(CYCLES, -1).mean(1) for curves in of_seeds])
        shares = cycles[:, 10:].mean(1) / best[:, 10:].mean(1)
        share[name] = shares.min()
        of_uniform = np.array([curves[name] / curves["uniform"] for curves in of_seeds])
        least[name] = least_of_days(of_uniform)
        medians = *np.median(cycles[:, [0, 4]], axis=0), np.median(cycles[:, 10:].mean(1)), np.median(shares)
        numbers = [*medians, of_uniform.min(), least[name]][: 6 if options.seeds > 1 else 5]
        rows.append([name, *(f"{number:.3f}" for number in numbers)])
    print(table(columns, rows))
    figures = {name: curve.round(4).tolist() for name, curve in of_seeds[0].items()}
    write_figures(
        options.json, pages=options.pages, cycle=options.cycle, zipf=options.zipf, freshness=figures
    )
    ours = [name for name in share if name.startswith("webcrawl")]
    reached = all(share[name] >= LEAST_OF_OPTIMUM and least[name] >= LEAST_OF_UNIFORM for name in ours)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
