"""The calculations of the benchmarks, and the generated input of the side-by-side benchmark."""

from __future__ import annotations

import asyncio
import json
import re
import resource
import subprocess
import sys
from argparse import Namespace
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import (
    beside_truth,
    command,
    compare,
    hostile,
    hostile_servers,
    live,
    long,
    main_parts,
    news,
    pair,
    reads,
    recrawl,
    report,
    servers,
    shards,
)
from benchmarks.compare import in_turn
from benchmarks.contender import CONTENDERS, Task
from benchmarks.generated_web import TROUBLES, World
from benchmarks.known_site import SITE, KnownSite
from benchmarks.long import Point
from benchmarks.news_web import ARCHIVE, NewsWeb
from benchmarks.report import Run
from benchmarks.served import Got
from benchmarks.sites import Site
from webcrawl.stores.metadata import Metadata


def run(pages: int, seconds: float, crawler_cpu: float, engine_cpu: float = 0.0) -> Run:
    return Run(
        Got(pages, 0, 0, seconds, 40.0, 110.0, 3, (1.0, 1.1, 1.3, 2.0), 5.0),
        0,
        crawler_cpu,
        engine_cpu,
        100.0,
        10.0,
    )


def test_figures_are_medians_minus_the_start_up_cost() -> None:
    starts = [run(1, 0.1, 1.0, 0.2), run(1, 0.1, 9.0, 0.2), run(1, 0.1, 1.0, 0.2)]
    runs = [run(100, 10.0, 1.5, 0.3), run(100, 1.0, 1.2, 0.3), run(100, 2.0, 1.3, 0.3)]
    result = report.result("links", "ours", starts, runs)
    assert result.pages_per_second == 50
    assert result.crawler_ms == pytest.approx(3.0)
    assert result.engine_ms == pytest.approx(1.0)
    assert result.total_ms == pytest.approx(4.0)


def test_a_contender_is_measured_with_further_settings(tmp_path: Path) -> None:
    task = Task(["http://127.0.2.1/"], 0, 16, 0.0, tmp_path)
    full = CONTENDERS["full"]
    further = pair.with_settings(full, ["TEXT=wet", "LINKS=True"])
    assert further.command(task) == [*full.command(task), "-s", "TEXT=wet", "-s", "LINKS=True"]
    assert pair.with_settings(full, []).command(task) == full.command(task)


def test_another_checkout_leaves_out_the_pipelines_that_it_has_itself(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    own = "LINKS = {'ITEM_PIPELINES': {'earlier.Pipeline': None}}"
    (tmp_path / "benchmarks" / "contender.py").write_text(own)
    task = Task(["http://127.0.2.1/"], 0, 16, 0.0, tmp_path)
    earlier = replace(CONTENDERS["links"], checkout=tmp_path)
    assert 'ITEM_PIPELINES={"earlier.Pipeline": null}' in earlier.words(task)
    assert CONTENDERS["links"].words(task) == CONTENDERS["links"].command(task)


def test_our_variants_run_before_each_competitor() -> None:
    chosen = [CONTENDERS[name] for name in ("links", "scrapy", "full", "crawlee")]
    assert [one.name for one in in_turn(chosen)] == ["links", "full", "scrapy", "links", "full", "crawlee"]
    assert in_turn(chosen[:1]) == chosen[:1]
    assert in_turn(chosen[1:2]) == chosen[1:2]


def test_a_target_is_marked_as_reached_or_not() -> None:
    fast = report.result("links", "ours", [run(1, 1, 0.0)], [run(1000, 1.0, 2.9)])
    slow = report.result("scrapy", "Scrapy", [run(1, 1, 0.0)], [run(1000, 9.0, 20.0)])
    reported = list(report.bars("http", [fast, slow]))
    assert "http: links against scrapy, pages/s: 9.00, bar 8" in reported
    assert "http: links, CPU: 2.90, bar 3" in reported
    slowest = report.result("links", "x", slow.runs, slow.runs)
    assert "http: links against scrapy, pages/s: 1.00, bar 8: MISSED" in report.bars("http", [slow, slowest])
    assert list(report.bars("http", [slow])) == []


def test_broad_crawls_have_targets_of_speed_cpu_and_memory() -> None:
    ours = report.result("links", "ours", [run(1, 1, 0.0)], [run(1000, 1.0, 1.9)])
    theirs = report.result("scrapy", "Scrapy", [run(1, 1, 0.0)], [run(1000, 2.0, 19.0)])
    assert list(report.bars("polite", [ours, theirs])) == [
        "polite: links against scrapy, pages/s: 2.00, bar 2.5: MISSED",
        "polite: links, CPU: 1.90, bar 2",
        "polite: links, memory: 110.00, bar 400",
    ]


def test_records_become_a_table() -> None:
    ours = report.result("links", "ours", [run(1, 1, 0.0)], [run(1000, 1.0, 1.9)])
    heads, _, row = command.records_table([ours]).splitlines()
    assert heads.startswith("| name | title | pages per second | crawler ms |")
    assert row == "| links | ours | 1,000 | 1.9 | 0 | 100 | 10 | 0 | 1,000 | 40 | 110 | 1 |"


def test_the_limit_of_open_files_is_raised_or_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limit: limits.append(limit))
    for known in [(1024, 50_000), (30_000, 50_000), (1024, resource.RLIM_INFINITY)]:
        monkeypatch.setattr(resource, "getrlimit", lambda kind, known=known: known)
        compare.allow_open_files()
    assert limits == [(20_000, 50_000), (20_000, resource.RLIM_INFINITY)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1024, 4096))
    with pytest.raises(SystemExit, match="may have 4096. Run `ulimit -Hn 20000` as root"):
        compare.allow_open_files()


def test_pages_distributed_to_many_hosts_still_link_to_each_other(tmp_path: Path) -> None:
    folder, dealt = tmp_path / "site", tmp_path / "dealt"
    (folder / "deep").mkdir(parents=True)
    (folder / "index.html").write_text(
        '<a class="x" href="deep/a.html#part">a</a> <a href="https://else.example/">e</a>'
    )
    (folder / "deep" / "a.html").write_text("<link rel=next href='../b.html'><a href='../b.html'>b</a>")
    (folder / "b.html").write_text("<a href=''>self</a><a href='gone.html'>gone</a>")
    (folder / "lonely.html").write_text("nobody leads here")
    addresses = ["127.0.3.1", "127.0.3.2", "127.0.3.3"]
    site = Site("A site", "package", folder, "127.0.1.1")
    seeds = shards.deal([site], addresses, "https://{}:1", dealt)
    files = {path.relative_to(dealt) for path in dealt.rglob("*.html")}
    assert {path.name for path in files} == {"index.html", "a.html", "b.html"}
    homes = {path.name: path.parts[0] for path in files}
    assert seeds[0] == f"https://{homes['index.html']}:1/0/index.html"
    assert {seed.split("/")[2] for seed in seeds} == {f"{home}:1" for home in homes.values()}
    index = (dealt / homes["index.html"] / "0" / "index.html").read_text()
    assert (
        f'href="https://{homes["a.html"]}:1/0/deep/a.html#part"' in index and "https://else.example/" in index
    )
    deep = (dealt / homes["a.html"] / "0" / "deep" / "a.html").read_text()
    assert deep.count(f"https://{homes['b.html']}:1/0/b.html") == 2


def point(pages: int, worker: float, pace: float = 100.0) -> Point:
    return Point(pages, pages, pages / 100, pace, 5.0, worker, 50.0)


def test_a_long_crawl_is_judged_after_its_warm_up() -> None:
    points = [point(1_000 * number, min(400.0, 100.0 * number)) for number in range(1, 11)]
    assert long.verdict(points) == []
    assert long.verdict(points[:2]) == ["too short to tell"]
    growing = [point(1_000 * number, 100.0 * number) for number in range(1, 11)]
    assert "memory grew" in long.verdict(growing)[0]
    slower = [point(1_000 * number, 100.0, 100.0 / number) for number in range(1, 11)]
    assert "pace fell" in long.verdict(slower)[0]


def test_the_generated_web_is_deterministic_and_links_only_to_itself() -> None:
    world, again = World(1_000, 80, seed=2), World(1_000, 80, seed=2)
    pages = [(host, host % world.pages(host)) for host in range(500)]
    assert [world.page(*page) for page in pages] == [again.page(*page) for page in pages]
    assert world.page(1, 0) != World(1_000, 80, seed=3).page(1, 0)
    for host, page in re.findall(
        rb'href="http://h(\d+)\.web\.test:80/p(\d+)"', b"".join(world.page(*p) for p in pages)
    ):
        assert int(host) < 1_000 and int(page) < world.pages(int(host))


def test_the_generated_web_has_hosts_with_each_kind_of_trouble() -> None:
    world = World(20_000, 80)
    kinds = Counter(world.trouble(host) for host in range(20_000))
    assert set(kinds) == {"", *TROUBLES}
    assert kinds[""] > 18_000


def test_main_parts_are_compared_by_their_annotations() -> None:
    page = main_parts.AnnotatedPage("http://a.test/", b"", ["a", "b"], ["c", "d"])
    assert main_parts.measured([page], {page.url: "a c"}) == (0.5, 0.5, 0.5)
    assert main_parts.measured([page], {page.url: ""}) == (0.0, 0.0, 0.0)


def outcome(seconds: float | None = 13.0, gap: float = 0.3, worker: float = 200.0) -> hostile.Outcome:
    return hostile.Outcome("robots", 400, 400, seconds, gap, worker, 10.0, 50)


def test_an_attack_is_judged_by_time_gap_and_memory() -> None:
    assert outcome().missed() == []
    assert outcome(seconds=None).missed() == outcome(seconds=17.0).missed() == ["time"]
    assert outcome(gap=1.5, worker=600.0).missed() == ["gap", "memory"]


def test_requests_to_honest_hosts_are_read_from_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "1.0 honest0.test:80 /robots.txt\n1.5 honest0.test:80 /0\n3.0 honest1.test:80 /0\n3.2 honest1"
    )
    asked = servers.requests(log)
    assert [moment for moment, _ in asked] == [1.0, 1.5, 3.0]
    assert hostile.pages(asked) == 2
    assert hostile.longest_gap(asked, until=3.1) == 1.5
    assert hostile.longest_gap(asked, until=9.0) == 6.0


def test_names_of_attacks_resolve_fail_or_stay_unanswered() -> None:
    found = [hostile_servers.address(name) for name in ("honest3.test", "bad300.test", "nowhere1.test")]
    assert found == [bytes([127, 20, 0, 3]), bytes([127, 21, 1, 44]), None]
    assert hostile_servers.address("n1.silent.test") == hostile_servers.address("silent1.test") == b""


@pytest.mark.parametrize("name", hostile_servers.ATTACKS)
def test_each_attack_answers_and_logs_its_first_request(name: str, tmp_path: Path) -> None:
    """Mute hosts answer nothing."""
    log = tmp_path / "log"
    answer = b"" if name == "mute" else b"HTTP/1.1 "

    async def ask() -> bytes:
        port, ready = servers.free_port("0.0.0.0"), asyncio.Event()
        attack = asyncio.create_task(hostile_servers.serve(name, port, 0, log, ready.set))
        await ready.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: bad0.test\r\n\r\n")
        start = await reader.readexactly(len(answer))
        while not servers.requests(log):
            await asyncio.sleep(0.01)
        writer.close()
        attack.cancel()
        return start

    assert asyncio.run(ask()) == answer
    assert servers.requests(log)[0][1] == "bad0.test /"


def test_days_of_several_webs_are_judged_by_their_mean_less_two_errors() -> None:
    """A web may have a bad day by chance; on the second day, all are bad."""
    webs = np.array([[0.9, 0.96, 1.1], [1.1, 0.94, 1.1], [1.1, 0.95, 1.1], [1.1, 0.95, 1.1]])
    assert recrawl.least_of_days(webs[:1]) == 0.9
    assert recrawl.least_of_days(webs) == pytest.approx(0.95 - 2 * webs[:, 1].std(ddof=1) / 2)


def test_articles_appear_on_their_hubs_over_the_day() -> None:
    web = NewsWeb(80, hubs=10, articles=200, day=100)
    articles = web.articles()
    assert (web.hosts, len(articles)) == (2, 200)
    assert all(0 <= appears <= 100 for appears in articles.values())
    name, appears = next(iter(articles.items()))
    host, path = int(name[8]), name.partition(" ")[2]
    front, section = "/", path.rpartition("/")[0] + "/"
    for hub in (front, section):
        before, after = (web.page_at(host, hub, appears + second) or "" for second in (-0.001, 0.001))
        assert f'"{path}"' in after and f'"{path}"' not in before
    assert web.page_at(host, path, appears - 0.001) is None
    assert web.page_at(host, path, appears) is not None
    assert (web.page_at(host, "/section0/", 0) or "").count("/section0/story-") == ARCHIVE


def test_visits_of_all_pages_at_one_interval_take_as_many_requests() -> None:
    """Two turns of all pages, or three."""
    options = Namespace(hubs=40, articles=2_000, day=300.0, delay=0.1)
    intervals = [
        news.interval_of(news.NewsDelays("ours", requests, 0, 0.0, 1.0, 1.0, 1.0), options)
        for requests in (1_720, 3_440)
    ]
    assert intervals[0] == pytest.approx(149, abs=2)
    assert intervals[1] == pytest.approx(95, abs=2)


def test_articles_that_were_not_fetched_wait_until_the_end_of_the_day() -> None:
    web = NewsWeb(80, hubs=5, articles=2, day=100)
    (early, appears), (never, lost) = sorted(web.articles().items(), key=lambda article: article[1])
    log = [(1000.0, "www.news0.test:80 /robots.txt 200"), (1000.5, "www.news0.test:80 / 200")]
    log += [(1000.0 + appears + second, f"{early} 200") for second in (2, 3)]
    log += [(1101.0, f"{never} 200")]
    result = news.delays("ours", web, log, 0.0)
    assert (result.requests, result.again, result.fetched) == (3, 1, 0.5)
    assert result.median_delay == pytest.approx((2 + 100 - lost) / 2)


def test_the_plot_of_the_live_lane_has_the_times_of_each_part_of_the_run() -> None:
    put_at = {number: 100.0 + number for number in range(401)}
    took = {number: 1.0 if number < 200 else 3.0 for number in put_at if number % 50}
    took[1] = 9.0
    points = live.over_time(put_at, took)
    assert len(points) == live.PARTS and points[0] == {"at": 5.0, "p50": 1.0, "p99": 9.0}
    assert points[-1] == {"at": 395.0, "p50": 3.0, "p99": 3.0}
    drawn = live.plot(points, "a note <with> signs")
    assert drawn.count("<polyline") == 2 and "99 of 100" in drawn and "<with>" not in drawn
    # a run without an answer in a part, and one of a single message
    assert len(live.over_time({0: 1.0, 1: 9.0}, {1: 0.5})) == 1
    assert live.over_time({0: 1.0}, {0: 0.5})[0]["p50"] == 0.5


def test_the_use_of_processes_counts_those_that_have_ended(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "print(sum(range(3_000_000)), flush=True); input()"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdin and process.stdout.readline()
        uses = live.Uses({"ours": [process.pid], "none": []})
        uses.look()
        process.stdin.close()
    uses.look()
    (spent, megabytes), later = uses.looks[0]["ours"], uses.looks[1]["ours"]
    assert spent > 0 and megabytes > 1 and later == (spent, 0.0)
    assert uses.looks[0]["none"] == (0.0, 0.0)
    uses.looks[1]["ours"], uses.at = (spent + 3.0, 5.0), [10.0, 16.0]
    assert uses.figures()["ours"] == pytest.approx(
        {"core seconds": 3.0, "cores": 0.5, "MB after a quarter": megabytes, "MB at the end": 5.0}
    )


def test_filled_rows_are_those_that_are_read(tmp_path: Path) -> None:
    reads.fill(f"sqlite:///{tmp_path}/pages.db", 120)
    with Metadata(f"sqlite:///{tmp_path}/pages.db") as metadata:
        rows = metadata.get_many([reads.url_of(number) for number in (0, 49, 50, 119)])
    assert {url: (row["title"], row["host"]) for url, row in rows.items()} == {
        "http://h0000000.test/a/section/page-000": ("The title of a page", "http://h0000000.test"),
        "http://h0000000.test/a/section/page-049": ("The title of a page 49", "http://h0000000.test"),
        "http://h0000001.test/a/section/page-000": ("The title of a page 50", "http://h0000001.test"),
        "http://h0000002.test/a/section/page-019": ("The title of a page 119", "http://h0000002.test"),
    }


def test_reads_are_counted_by_kind(tmp_path: Path) -> None:
    times = {kind: [0.001] * 99 + [0.5] for kind in reads.KINDS}
    read = {"times": times, "failures": dict.fromkeys(reads.KINDS, 2)}
    (tmp_path / "reads.json").write_text(json.dumps(read))
    shown, figures = reads.reads_table(tmp_path / "reads.json", 10.0)
    assert figures["batches of 20"]["URLs/s"] == 200 and figures["single pages"]["URLs/s"] == 10
    assert figures["single pages"]["p50 ms"] == pytest.approx(1.0) and "| single pages | 10 | 1 |" in shown


def test_turns_of_hosts_alone_delay_the_live_lane() -> None:
    assert live.by_turns_alone(50, 0.0, 0, seconds=2) == [0.0] * 100
    alone, beside = (live.by_turns_alone(50, 10.0, others, seconds=4) for others in (0, 200))
    assert len(alone) == len(beside) == 200
    assert alone[0] == 0.0 and alone[-1] < beside[-1]
    assert sum(alone) < sum(beside), "the broad crawl takes turns"


def test_what_programs_read_is_shown_beside_the_truth(capsys: pytest.CaptureFixture[str]) -> None:
    read = {"one": {"pages": 1_200, "kind": "a"}, "other": {"pages": 1_199}}
    assert beside_truth.report({"pages": 1_200, "kind": "a"}, read) == 1
    rows = ["| what | truth | one | other |", "|---|---:|---:|---:|", "| pages | 1,200 | 1,200 | 1,199 |"]
    expected = [*rows, "| kind | a | a |  |", "WRONG other: pages: 1,199 instead of 1,200"]
    assert capsys.readouterr().out.splitlines() == expected


def test_a_known_site_has_what_it_says() -> None:
    site = KnownSite(40)
    pages = [site.page(number) for number in range(40)]
    assert sum(page.count("<a href=/page/") for page in pages) == len(list(site.links()))
    prices = [site.price(number) for number in range(40)]
    assert all(price is None or f"{price}" in page for price, page in zip(prices, pages, strict=True))
    site.version = 2
    changed = [number for number in range(40) if site.page(number) != pages[number]]
    assert changed == [0, 10, 20, 30]
    site.publish()
    assert site.web.sites[SITE].keys() >= {"/", "/page/39", "/copy/0", "/gone/0", "/old/0"}
