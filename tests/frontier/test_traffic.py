"""Each class of fetches gets its share (TRAFFIC), from the hosts of a crawl and from the URLs of a host."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.frontier.consumer import Consumer, page_with
from tests.frontier.pages import all_done, page, urls_of
from tests.frontier.spilling import HOST, fetch, serve, spilling
from webcrawl.frontier import Candidate, Crawl, Frontier, LeasedURL, LeaseReport, Settlement
from webcrawl.policies.traffic import CLASSES, Traffic
from webcrawl.worker.due_hosts import DueHosts
from webcrawl.worker.leased_host import LeasedHost

SHARES = {"coverage-get": 40, "freshness-get": 25, "coverage-chk": 5, "freshness-chk": 10, "update-chk": 20}
OWN = {"coverage-get": 10, "freshness-get": 20, "coverage-chk": 20, "freshness-chk": 40, "update-chk": 10}
WITH_SITE = {**SHARES, "own.test": OWN}
WINDOW = 8

Frontiers = Callable[..., Frontier]


class Fetch(NamedTuple):
    """A fetch of a class, from the hosts of a site with a table of its own, or "" for the others."""

    site: str
    fetch_class: str


def candidates(host: str, classes: Iterable[str], each: int) -> list[Candidate]:
    """Returns URLs of these classes, at all levels."""
    return [
        replace(page(f"{host}/{name}/{n}", level=n % 8), fetch_class=name)
        for name in classes
        for n in range(each)
    ]


async def split(frontier: Frontier) -> None:
    """Gives the classes queues of their own."""
    await Crawl(frontier.engine, frontier.keys, "w").configure(0, "breadth-first", traffic="{}")


class Fetcher:
    """A worker that fetches one URL at a time, from up to WINDOW hosts of its shards, which are always due."""

    def __init__(self, frontier: Frontier, shards: Sequence[int]) -> None:
        assert frontier.traffic
        self.frontier, self.shards, self.traffic = frontier, shards, frontier.traffic
        self.hosts: dict[str, LeasedHost] = {}
        self.done: dict[str, list[Settlement]] = {}
        self.due = DueHosts(self.traffic)

    async def lease(self) -> None:
        if (room := WINDOW - len(self.hosts)) > 0:
            for lease in await self.frontier.lease(room, 10, self.shards):
                self.hosts[lease.host] = LeasedHost(lease, None, 1, deque(lease.urls))  # type: ignore[arg-type]
                self.due.add(0.0, self.hosts[lease.host])

    def fetch(self) -> LeasedURL | None:
        if (due := self.due.take(1.0)) is None:
            return None
        _, name, fetch_class = due
        host = self.hosts[name]
        url = host.take_of_class(fetch_class)
        self.traffic.of(name).start(url.fetch_class)
        self.done.setdefault(name, []).append(Settlement(url.index))
        if host.urls:
            self.due.add(0.0, host)
        return url

    async def report(self) -> None:
        """Settles what was fetched, leases more URLs of hosts that run low, and releases hosts without more."""
        done, self.done = self.done, {}
        reports = []
        for name, settled in done.items():
            host = self.hosts[name]
            reports.append(
                LeaseReport(
                    host.lease,
                    settled,
                    more=10 - len(host.urls) if len(self.hosts) < WINDOW and len(host.urls) < 5 else 0,
                )
            )
        await self.frontier.settle_all(reports, self._extend)
        for name in [name for name, host in self.hosts.items() if not host.urls]:
            await self.frontier.release(self.hosts.pop(name).lease)

    def _extend(self, report: LeaseReport, urls: list[LeasedURL] | None, _: Sequence[int]) -> None:
        host = self.hosts[report.lease.host]
        assert urls is not None
        if urls and not host.urls:
            host.urls.extend(urls)
            self.due.add(0.0, host)
        else:
            host.urls.extend(urls)

    def beat(self, order: Sequence[Fetch], workers: int) -> None:
        sites = {site for site, _ in order}
        leased = [Fetch(self.traffic.site_of(url.host), url.fetch_class) for url in self._urls()]
        self.traffic.update(
            {site: of_site(order, site) for site in sites},
            workers,
            {site: list(of_site(leased, site).elements()) for site in sites},
        )

    def _urls(self) -> Iterator[LeasedURL]:
        for host in self.hosts.values():
            yield from host.urls


def of_site(order: Iterable[Fetch], site: str = "") -> Counter[str]:
    """Returns the number of fetches of each class from the hosts of a site."""
    return Counter(fetch.fetch_class for fetch in order if fetch.site == site)


async def crawl(fetchers: list[Fetcher], fetches: int, killed_after: int = 0) -> list[Fetch]:
    """Lets workers fetch in turns; returns the fetches. One worker dies after some fetches, while it holds hosts."""
    order: list[Fetch] = []
    beats = 0
    while len(order) < fetches:
        if killed_after and len(order) >= killed_after and fetchers[-1].hosts:
            killed_after, dead = 0, fetchers.pop()
            fetchers[0].shards = [*fetchers[0].shards, *dead.shards]
            taken, _ = await fetchers[0].frontier.reap()
            assert taken == len(dead.hosts) > 0
        for fetcher in fetchers:
            await fetcher.lease()
            urls = [url for _ in range(20) if (url := fetcher.fetch())]
            assert urls
            order += [Fetch(fetcher.traffic.site_of(url.host), url.fetch_class) for url in urls]
            await fetcher.report()
        if len(order) >= 250 * beats:
            beats += 1
            for fetcher in fetchers:
                fetcher.beat(order, len(fetchers))
    return order


def deviations(counted: Counter[str], shares: Mapping[str, int]) -> dict[str, float]:
    """Returns by how many points each class misses its share."""
    return {name: abs(100 * counted[name] / counted.total() - shares[name]) for name in CLASSES}


@pytest.mark.parametrize(
    ("classes_of_host", "fetches", "table"),
    [
        (1, 3_000, SHARES),
        (2, 3_000, WITH_SITE),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in ((2, 3_000, SHARES), (1, 10_000, SHARES), (2, 10_000, WITH_SITE))
        ),
    ],
)
async def test_each_class_has_its_share_over_three_workers_and_a_kill(
    frontier_of: Frontiers, classes_of_host: int, fetches: int, table: Mapping[str, Any]
) -> None:
    """There is work in each class all the time. A third of the hosts may have a table of their own."""
    workers = [
        frontier_of("crawl", f"w{n}", shards=6, traffic=Traffic(table), lease_seconds=seconds)
        for n, seconds in enumerate((600.0, 600.0, 0.001))
    ]
    await split(workers[0])
    for n in range(60):
        classes = [CLASSES[(n // 3 + m) % 5] for m in range(classes_of_host)]
        host = f"http://h{n}.{'own' if n % 3 == 0 else 'other'}.test"
        await workers[0].add(candidates(host, classes, fetches * 22 // 300 // classes_of_host))
    fetchers = [Fetcher(worker, [2 * n, 2 * n + 1]) for n, worker in enumerate(workers)]
    order = await crawl(fetchers, fetches, killed_after=fetches // 3)
    for site, shares in {"": SHARES, **({"own.test": OWN} if table is WITH_SITE else {})}.items():
        missed = deviations(of_site(order, site), shares)
        print(site or "other hosts", of_site(order, site).total(), missed)
        assert max(missed.values()) < 2


@pytest.mark.slow
async def test_each_class_has_its_share_if_only_some_workers_have_its_urls(frontier_of: Frontiers) -> None:
    """Two classes are at one of three workers, and two more at two of them. One worker is killed."""
    classes_of_worker = (CLASSES, ("coverage-get", "update-chk"), ("coverage-get", "freshness-get"))
    workers = [
        frontier_of("crawl", f"w{n}", shards=6, traffic=Traffic(SHARES), lease_seconds=seconds)
        for n, seconds in enumerate((600.0, 600.0, 0.001))
    ]
    await split(workers[0])
    of_worker = Counter[int]()
    for host in (f"http://h{n}.test" for n in itertools.count()):
        number = workers[0].keys.shard(host) // 2
        if of_worker.total() == 24:
            break
        if of_worker[number] < 8:
            classes = classes_of_worker[number]
            fetch_class = classes[of_worker[number] % len(classes)]
            await workers[0].add(candidates(host, [fetch_class], 3_000))
            of_worker[number] += 1
    fetchers = [Fetcher(worker, [2 * n, 2 * n + 1]) for n, worker in enumerate(workers)]
    order = await crawl(fetchers, 10_000, killed_after=5_000)
    missed = deviations(of_site(order), SHARES)
    print(of_site(order).total(), missed)
    assert max(missed.values()) < 2


async def test_what_a_class_does_not_use_goes_to_the_others_by_their_shares(frontier_of: Frontiers) -> None:
    """A class that has URLs again has its share again, and makes up for little."""
    frontier = frontier_of("crawl", "w", shards=1, traffic=Traffic(SHARES))
    await split(frontier)
    for n in range(4):
        await frontier.add(candidates(f"http://h{n}.test", ["coverage-get", "freshness-get"], 800))
    fetcher = Fetcher(frontier, [0])
    order = await crawl([fetcher], 1_300)
    assert of_site(order) == {
        "coverage-get": pytest.approx(800, abs=8),
        "freshness-get": pytest.approx(500, abs=8),
    }
    for n in range(4):
        await frontier.add(candidates(f"http://h{n}.test", ["update-chk"], 800))
    order = await crawl([fetcher], 2_550)
    rest = of_site(order[1_700:])
    assert rest == {
        "coverage-get": pytest.approx(400, abs=20),
        "freshness-get": pytest.approx(250, abs=20),
        "update-chk": pytest.approx(200, abs=20),
    }


async def test_a_domain_may_have_shares_of_its_own(frontier_of: Frontiers) -> None:
    table = {"coverage-get": 3, "update-chk": 1, "own.test": {"coverage-get": 1, "update-chk": 3}}
    frontier = frontier_of("crawl", "w", shards=1, traffic=Traffic(table))
    await split(frontier)
    hosts = ["http://news.own.test", "http://own.test:8080", "http://disown.test"]
    for host in hosts:
        await frontier.add(candidates(host, ["coverage-get", "update-chk"], 40))
    leased = {
        lease.host: Counter(url.fetch_class for url in lease.urls) for lease in await frontier.lease(3, 40)
    }
    assert [leased[host]["update-chk"] for host in hosts] == [30, 30, 10]


async def test_a_class_is_handed_out_although_urls_of_others_are_before_it(frontier_of: Frontiers) -> None:
    """Its URLs may stand behind those of a class that has had more than its share."""
    frontier = frontier_of("crawl", "w", shards=1, traffic=Traffic(SHARES))
    await split(frontier)
    await frontier.add(candidates("http://a.test", ["coverage-get", "freshness-chk"], 10))
    fetcher = Fetcher(frontier, [0])
    await fetcher.lease()
    host = fetcher.hosts["http://a.test"]
    host.urls = deque(sorted(host.urls, key=lambda url: url.fetch_class))
    assert host.urls[0].fetch_class == "coverage-get"
    fetcher.traffic.update({"": {}}, 1, {})
    fetcher.traffic.update({"": {"coverage-get": 500}}, 1, {})
    number = sum(url.fetch_class == "freshness-chk" for url in host.urls)
    urls = [url for _ in range(number) if (url := fetcher.fetch())]
    assert [url.fetch_class for url in urls] == ["freshness-chk"] * number
    assert number > 0


async def test_no_url_is_leased_of_a_class_of_which_there_are_enough(frontier_of: Frontiers) -> None:
    """A host that has no others is left to a later lease, also one whose URLs are all of the first class."""
    frontier = frontier_of("crawl", "w", shards=1, traffic=Traffic(SHARES))
    await split(frontier)
    await frontier.add(candidates("http://a.test", ["coverage-get", "update-chk"], 3))
    await frontier.add(candidates("http://b.test", ["coverage-get"], 3))
    (lease,) = await frontier.lease(2, 10, enough_of={"coverage-get"})
    assert [url.fetch_class for url in lease.urls] == ["update-chk"] * 3
    (other,) = await frontier.lease(2, 10)
    assert (other.host, len(other.urls)) == ("http://b.test", 3)
    report = LeaseReport(other, all_done(other), more=5, enough_of={"coverage-get"})
    await frontier.add(candidates("http://b.test/more", ["coverage-get"], 3))
    replies = list[Any]()
    await frontier.settle_all([report], lambda _, urls, __: replies.append(urls))
    assert replies == [[]]
    await frontier.release(lease, all_done(lease))
    (lease,) = await frontier.lease(2, 10)
    assert [url.fetch_class for url in lease.urls] == ["coverage-get"] * 3


async def test_within_a_class_the_best_level_comes_first(frontier_of: Frontiers) -> None:
    frontier = frontier_of(
        "crawl", "w", shards=1, traffic=Traffic({"coverage-get": 1, "update-chk": 1}), low_share=0
    )
    await split(frontier)
    await frontier.add(candidates("http://a.test", ["coverage-get", "update-chk"], 24))
    (lease,) = await frontier.lease(1, 48)
    for name in ("coverage-get", "update-chk"):
        levels = [url.level for url in lease.urls if url.fetch_class == name]
        assert levels == sorted(levels)
    assert all(first.fetch_class != second.fetch_class for first, second in pairwise(lease.urls))


async def test_a_request_for_a_url_that_was_seen_is_an_update(frontier: Frontier) -> None:
    known, new = page("http://a.test/known"), page("http://a.test/new")
    await frontier.add([known])
    await frontier.add([replace(each, anyway=True) for each in (known, new)])
    (lease,) = await frontier.lease(1, 3)
    classes = [(url.path, url.fetch_class) for url in lease.urls]
    assert classes == [("/known", "coverage-get"), ("/known", "update-chk"), ("/new", "coverage-get")]


async def test_hosts_of_one_class_that_a_worker_holds_do_not_keep_out_those_of_another(
    frontier_of: Frontiers,
) -> None:
    """The worker holds as many hosts that have answered as it may, and hands out nothing."""
    frontier = frontier_of("crawl", "w", shards=1, traffic=Traffic(SHARES))
    await split(frontier)
    others = [f"http://h{n}.test" for n in range(12)]
    await frontier.add([page(f"{host}/") for host in (*others, "http://late.test")])
    for lease in await frontier.lease(13, 1):
        lease.answered = True
        await frontier.release(lease, all_done(lease))
    for host in others:
        await frontier.add(candidates(host, ["coverage-get"], 30))
    consumer = Consumer(frontier, lambda url: page_with(), lease_hosts=8, most_lease_hosts=8)
    consumer.stopped = True
    consumer.start()
    hosts = consumer.worker.hosts
    await consumer.until(lambda: len(hosts) >= 8)
    await frontier.add(candidates("http://late.test", ["update-chk"], 3))
    await consumer.until(lambda: hosts.hosts_of_classes()["update-chk"] > 0)
    assert hosts.hosts_of_classes()["coverage-get"] <= 9
    await consumer.stop()


@pytest.mark.parametrize("hot", [0, 8])
async def test_no_url_is_lost_when_traffic_is_set_and_unset(
    frontier_of: Frontiers, tmp_path: Path, hot: int
) -> None:
    """URLs that were queued before stay where they are; long queues of classes are in the store."""
    plain = frontier_of("crawl", "w", shards=1)
    shared = frontier_of("crawl", "w", shards=1, traffic=Traffic(SHARES))
    tails = await spilling(plain, tmp_path, hot)
    record = Crawl(plain.engine, plain.keys, "w")
    urls = candidates(HOST, CLASSES, 60)
    await plain.add(urls[::2])
    await record.configure(hot, "breadth-first", traffic="{}")
    await shared.add(urls[1::2])
    await serve(tails, plain)
    fetched = []
    for _ in range(5):
        (lease,) = await shared.lease(1, 20)
        fetched += urls_of([lease])
        assert await shared.release(lease, all_done(lease))
        await serve(tails, plain)
    await record.configure(hot, "breadth-first")
    fetched += await fetch(plain, tails, 7)
    assert sorted(fetched) == sorted(url.host + url.path for url in urls)
