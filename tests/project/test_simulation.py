"""The simulated crawl: its web keeps the laws that it states, and a small crawl is polite and complete."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import simulate
from benchmarks.power_law_web import PowerLawWeb, numbers_of, url_of
from benchmarks.reference_orders import KnownOrder
from benchmarks.simulated_crawl import BEGIN, simulated_crawl
from webcrawl.urls.canonical import split

WEB = PowerLawWeb(200, 2_000)
SMALL = (
    *("--hosts", "200", "--urls", "2000", "--fetches", "400", "--window", "40"),
    *("--order-hosts", "100", "--order-urls", "1000", "--order-window", "20", "--shards", "4"),
)


def test_the_sizes_are_those_that_were_asked_for() -> None:
    assert WEB.hosts == 200 and WEB.sizes.min() >= 1 and WEB.urls == WEB.sizes.sum()
    assert abs(WEB.urls - 2_000) < 200


def test_the_importance_of_all_pages_is_the_whole() -> None:
    importance = WEB.all_importance()
    assert len(importance) == WEB.urls and importance.sum() == pytest.approx(1)
    assert (np.diff(importance) <= 0).all()


def test_links_lead_to_pages_by_their_importance() -> None:
    hosts = np.repeat(np.arange(WEB.hosts), WEB.sizes)
    pages = np.concatenate([np.arange(size) for size in WEB.sizes])
    links = [link for targets in WEB.links(hosts, pages) for link in targets]
    targets = Counter(numbers_of(*split(link)) for link in links)
    assert all(0 <= host < WEB.hosts and 0 <= page < WEB.sizes[host] for host, page in targets)
    popular, _ = targets.most_common(1)[0]
    expected = WEB.importance(np.array([popular[0]]), np.array([popular[1]]))[0]
    assert targets[popular] / len(links) == pytest.approx(expected, rel=0.25)
    assert WEB.links(hosts[:9], pages[:9]) == WEB.links(hosts[:9], pages[:9])


def test_numbers_of_a_url() -> None:
    assert numbers_of(*split(url_of(12_345_678, 9_876_543_210))) == (12_345_678, 9_876_543_210)


def test_the_best_polite_order_gets_a_page_of_a_host_at_a_time() -> None:
    polite, best = WEB.best_polite(400, 20), WEB.all_importance()
    assert len(polite) == 400 and (np.cumsum(polite) <= np.cumsum(best[:400]) + 1e-12).all()
    assert WEB.best_polite(WEB.urls, WEB.hosts).sum() == pytest.approx(1)


def test_an_order_by_links_knows_less_than_the_best() -> None:
    ours, best = KnownOrder(WEB, 20, 5).importance(400), WEB.best_polite(400, 20)
    assert len(ours) == 400 and ours.sum() < best.sum()
    # the chosen pages are more important than usual ones
    assert ours.sum() > 1.5 * 400 / WEB.urls


def test_an_order_by_links_does_not_know_which_of_equal_pages_is_popular() -> None:
    firsts = WEB.importance(np.arange(WEB.hosts), np.zeros(WEB.hosts, np.int64))
    assert KnownOrder(WEB, 20, WEB.hosts).importance(20).sum() < 0.8 * np.sort(firsts)[-20:].sum()


def test_an_order_that_knows_less_catches_less() -> None:
    orders = [KnownOrder(WEB, 20, 5, **knows).importance(200) for knows in simulate.KNOWN_ORDERS.values()]
    assert all(len(order) == 200 for order in orders)
    caught = [order.sum() for order in (WEB.best_polite(200, 20), *orders)]
    assert caught == sorted(caught, reverse=True)


def test_the_credit_of_an_order_is_constant() -> None:
    order = KnownOrder(WEB, 20, 5, credit=True)
    order.importance(1000)
    assert order._lambda + order._credit.sum() == pytest.approx(1)
    assert not order._credit[order._fetched].any()


def test_each_page_of_the_web_is_queued_once() -> None:
    pairs = [
        pair for batch in simulate._batches(WEB) for pair in zip(*map(np.ndarray.tolist, batch), strict=True)
    ]
    assert len(pairs) == len(set(pairs)) == WEB.urls


def test_a_crawl_by_links_is_polite_and_ends_with_every_page_that_is_linked() -> None:
    asyncio.run(_crawl_all())


async def _crawl_all() -> None:
    web = PowerLawWeb(60, 500)
    async with simulated_crawl(
        web, primaries=1, shards=4, importance="trusted", window=50, delay=1.0
    ) as crawl:
        await crawl.seed([url_of(host, 0) for host in range(5)])
        idle = 0
        while idle < 12 and crawl.now - BEGIN < 2_000:
            before = len(crawl.order)
            idle = 0 if await crawl.step() else idle + 1
            hosts = [host for host, _ in crawl.order[before:]]
            assert len(hosts) == len(set(hosts))
        counts = await crawl.frontier.counts()
    assert len(set(crawl.order)) == len(crawl.order) == counts.added == counts.done
    assert counts.refused == counts.reaped == counts.queued == counts.leased == 0
    assert len(crawl.order) > web.urls / 2


def test_the_program_writes_its_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "figures.json"
    monkeypatch.setattr("sys.argv", ["simulate", *SMALL, "--json", str(file)])
    assert simulate.main() == 0
    figures: dict[str, Any] = json.loads(file.read_text())
    size, crawl = figures["size"], figures["size"]["crawl"]
    assert size["memory_bytes_a_url"] > 20 and size["disk"] > 0 and size["urls"] == WEB.urls
    assert crawl["pages"] >= 400 and crawl["fetched_twice"] == crawl["leases_lost"] == 0
    assert crawl["engine_us_a_page"] > 0 and crawl["worker_us_a_page"] > 0
    curves = figures["order"]["curves"]
    assert list(curves) == ["best", "best and polite", *simulate.KNOWN_ORDERS, "trusted", "off"]
    for curve in curves.values():
        assert len(curve) == simulate.CURVE_POINTS and curve == sorted(curve)
        assert all(ours <= best + 1e-3 for ours, best in zip(curve, curves["best"], strict=True))


@pytest.mark.slow
def test_a_cluster_is_simulated_too() -> None:
    asyncio.run(_crawl_on_a_cluster())


async def _crawl_on_a_cluster() -> None:
    async with simulated_crawl(
        WEB, primaries=3, shards=12, importance="trusted", window=50, delay=1.0
    ) as crawl:
        await crawl.seed([url_of(host, 0) for host in range(5)])
        while len(crawl.order) < 200 and crawl.now - BEGIN < 100:
            await crawl.step()
        assert len(crawl.order) >= 200 and await crawl.at.memory() > 0
        assert len(crawl.at.primaries) == len(crawl.at.replicas) == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--hosts", "0"), "above 0"),
        (("--urls", "10"), "as many URLs as hosts"),
        (("--primaries", "2"), "--primaries"),
        (("--primaries", "3", "--order-shards", "2"), "--order-shards"),
        (("--only", "sizes"), "there is no sizes"),
    ],
)
def test_wrong_options_are_refused(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        simulate.options_of(list(words))
    assert message in capsys.readouterr().err
