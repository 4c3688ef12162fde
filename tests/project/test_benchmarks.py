"""The calculations of the benchmarks, and the generated input of the side-by-side benchmark."""

from __future__ import annotations

import asyncio
import json
import random
import re
import resource
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import (
    changed_texts,
    compare,
    hostile,
    hostile_servers,
    long,
    main_parts,
    near_index,
    options,
    report,
    servers,
    shards,
)
from benchmarks.compare import in_turn
from benchmarks.contender import CONTENDERS, Task
from benchmarks.generated_web import TROUBLES, World
from benchmarks.long import Point
from benchmarks.option_table import DEFAULT, OPTIONS, Option
from benchmarks.report import Run
from benchmarks.served import Got
from benchmarks.sites import Site
from webcrawl.config import DECLARED


def run(pages: int, seconds: float, crawler_cpu: float, engine_cpu: float = 0.0) -> Run:
    return Run(Got(pages, 0, 0, seconds, 40.0, 110.0, 3), 0, crawler_cpu, engine_cpu, 100.0, 10.0)


def test_figures_are_medians_minus_the_start_up_cost() -> None:
    starts = [run(1, 0.1, 1.0, 0.2), run(1, 0.1, 9.0, 0.2), run(1, 0.1, 1.0, 0.2)]
    runs = [run(100, 10.0, 1.5, 0.3), run(100, 1.0, 1.2, 0.3), run(100, 2.0, 1.3, 0.3)]
    result = report.result("links", "ours", starts, runs)
    assert result.pages_per_second == 50
    assert result.crawler_ms == pytest.approx(3.0)
    assert result.engine_ms == pytest.approx(1.0)
    assert result.total_ms == pytest.approx(4.0)


def test_our_variants_run_before_each_competitor() -> None:
    chosen = [CONTENDERS[name] for name in ("links", "scrapy", "full", "crawlee")]
    assert [one.name for one in in_turn(chosen)] == ["links", "full", "scrapy", "links", "full", "crawlee"]
    assert in_turn(chosen[:1]) == chosen[:1]
    assert in_turn(chosen[1:2]) == chosen[1:2]


def test_a_target_is_marked_as_reached_or_not() -> None:
    fast = report.result("links", "ours", [run(1, 1, 0.0)], [run(1000, 1.0, 2.9)])
    slow = report.result("scrapy", "Scrapy", [run(1, 1, 0.0)], [run(1000, 9.0, 20.0)])
    reported = report.bars({"http": [fast, slow]})
    assert "| ours against Scrapy, pages/s | at least 8 x | 9.00 x | 6.9 x | yes |" in reported
    assert "| ours, CPU a page | at most 3 ms | 2.90 ms |  | yes |" in reported
    assert "**no**" in report.bars({"http": [slow, report.result("links", "x", fast.runs, slow.runs)]})
    assert report.bars({"http": [slow]}) == ""


def test_the_tables_are_written_between_the_markers_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.SECTION.begin}\nold\n{report.SECTION.end}\nafter\n")
    report.write(
        {"http": [report.result("links", "ours", [run(1, 1, 0.0)], [run(9, 1.0, 2.9)])]}, "today", None, page
    )
    text = page.read_text()
    assert text.startswith(f"before\n{report.SECTION.begin}\n") and text.endswith(
        f"{report.SECTION.end}\nafter\n"
    )
    assert "| ours | 9 |" in text and "old" not in text


def test_webs_that_are_not_measured_keep_their_tables(tmp_path: Path) -> None:
    page, file = tmp_path / "page.md", tmp_path / "figures.json"
    page.write_text(f"before\n{report.SECTION.begin}\nold\n{report.SECTION.end}\nafter\n")
    start = [run(1, 1, 0.0)]
    ours = report.result("links", "ours", start, [run(1000, 1.0, 2.9)])
    theirs = report.result("scrapy", "Scrapy", start, [run(1000, 10.0, 20.0)])
    report.write({"polite": [ours]}, "2026-01-01", file, page)
    report.write({"http": [ours, theirs]}, "2026-01-02", file, page)
    report.write({"polite": [ours, theirs]}, "2026-01-03", file, page)
    text = page.read_text()
    assert re.findall(r"^### (\w+)|^Measured on (\S+):", text, re.MULTILINE) == [
        *(("HTTP", ""), ("", "2026-01-02"), ("HTTP", ""), ("", "2026-01-03"), ("What", ""))
    ]
    assert "old" not in text and text.count("| Scrapy |") == 2
    assert report.kept(file)["http"].results == [ours, theirs]
    assert report.kept(tmp_path / "none.json") == {}
    known = json.loads(file.read_text())
    del known["when"]  # as earlier versions wrote it
    file.write_text(json.dumps(known))
    assert report.kept(file)["http"].date == "2026-01-03"


def test_broad_crawls_have_targets_of_speed_cpu_and_memory() -> None:
    ours = report.result("links", "ours", [run(1, 1, 0.0)], [run(1000, 1.0, 1.9)])
    theirs = report.result("scrapy", "Scrapy", [run(1, 1, 0.0)], [run(1000, 2.0, 19.0)])
    reported = report.bars({"polite": [ours, theirs]})
    assert "| at least 2.5 x | 2.00 x | 10.0 x | **no** |" in reported
    assert "| at most 2 ms | 1.90 ms |  | yes |" in reported
    assert "| at most 400 MB | 110 MB |  | yes |" in reported


@pytest.mark.parametrize("said", [["--webs", "http", "--page"], ["--set", "=5"], ["--set", "DELAY"]])
def test_arguments_that_would_lose_tables_or_mean_nothing_are_refused(
    said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(report.SECTION.begin)
    monkeypatch.setattr("sys.argv", ["compare", *said, *([str(page)] if said[-1] == "--page" else [])])
    with pytest.raises(SystemExit, match="2"):
        compare.arguments()


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


def test_further_settings_are_those_of_others_built_on_scrapy(tmp_path: Path) -> None:
    task = Task(["http://a.test/"], 0, 1, 1.0, tmp_path, {"CONCURRENT_REQUESTS": "300"})
    said = {name: CONTENDERS[name].command(task) for name in ("links", "scrapy")}
    assert [one for one in said["scrapy"] if one.startswith("CONCURRENT_REQUESTS=")] == [
        "CONCURRENT_REQUESTS=300"
    ]
    assert "CONCURRENT_REQUESTS=300" not in said["links"]


def test_options_are_compared_with_the_run_before_them() -> None:
    start = run(1, 0.1, 1.0, 0.2)
    without = options.figures(run(100, 1.0, 1.5, 0.3), start)
    assert without == pytest.approx((100.0, 6.0, 110.0))
    # the machine was half as fast in the second round, for both
    pairs = [
        options.Pair(options.Figures(80.0, 6.6, 121.0), without),
        options.Pair(options.Figures(42.0, 13.0, 121.0), options.Figures(50.0, 12.0, 110.0)),
    ]
    measured = options.summed_up(OPTIONS["COOKIES_ENABLED"], 1.25, pairs)
    assert (measured.speed_ratio, measured.cpu_ratio, measured.memory_ratio) == (0.82, 1.092, 1.1)
    table = options.options_table([measured])
    assert "| COOKIES_ENABLED | default | **0.82** | 1.09 | 1.10 | 61 | 9.80 | 121 | 1.25 | 2 |" in table


def test_every_option_is_known_and_beside_another_one_of_its_web() -> None:
    documented = {*DECLARED, "CLOSESPIDER_PAGECOUNT", "SPIDER_MODULES"}
    for one in OPTIONS.values():
        assert set(one.settings) <= documented
        if one.beside:
            other = OPTIONS[one.beside]
            assert (other.web, other.is_again, other.beside) == (one.web, one.is_again, "")
    assert [one.name for one in options.chosen(["csv", "cookies"])] == ["COOKIES_ENABLED", "feed of CSV"]
    with pytest.raises(SystemExit, match="no option nonsense"):
        options.chosen(["nonsense"])


def test_an_option_runs_right_after_what_it_is_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def figures(turns: options.Turns, option: Option) -> options.Figures:
        ran.append(option.name)
        return options.Figures(100.0, 5.0, 300.0)

    monkeypatch.setattr(options.Turns, "_figures", figures)
    turns = options.Turns(None)  # type: ignore[arg-type]
    for option in (Option("a"), Option("b", beside="HTTPS")):
        turns.pair(option)
    assert ran == [DEFAULT, "a", "HTTPS", "b"]


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


def test_pages_are_changed_by_the_given_amount() -> None:
    chance = random.Random(1)
    markup = "<html><body class=x><main><p>one two</p><p>three</p></main></body></html>"
    for name, change in changed_texts.MARKUP.items():
        changed = change(markup, chance)
        assert len(changed) > len(markup) + 30, name
        assert changed_texts.texts(changed)[1].startswith("one two") is (name != "another template")
    text = " ".join(["word"] * 10_000)
    for part in (0.01, 0.3):
        changed = changed_texts.words_changed(part)(text, chance).split()
        assert len(changed) == 10_000
        assert changed.count("word") == pytest.approx(10_000 * (1 - part), rel=0.05)


def test_main_parts_are_compared_by_their_words() -> None:
    assert main_parts.agreement("a b b c", "a b d d") == (0.5, 0.5)
    assert main_parts.agreement("", "a") == (0.0, 0.0)
    marked = "<main id='x' class=y><p role=main>text</p><nav>n</nav></main>"
    assert main_parts.without_marks(marked) == "<div><p>text</p><div>n</div></div>"


def test_index_lookups_are_measured_with_one_and_two_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near_index, "LOOKED_UP", 50)
    file, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text(f"before\n{near_index.SECTION.begin}\nold\n{near_index.SECTION.end}\nafter\n")
    near_index.report_index(2_000, file, page)
    figures = json.loads(file.read_text())
    reported = [(one["texts"], one["clients"], one["found"]) for one in figures["lookups"]]
    assert reported == [("new", 1, 0), ("near", 1, 50), ("new", 2, 0), ("near", 2, 100)]
    assert all(one["each_second"] > 0 and one["client_cpu"] > 0 for one in figures["lookups"])
    assert figures["bytes_each"] > 100
    written = page.read_text()
    assert written.startswith("before\n")
    assert written.endswith("\nafter\n")
    assert "| near | 2 |" in written
    assert "old" not in written


def outcome(seconds: float | None = 13.0, gap: float = 0.3, worker: float = 200.0) -> hostile.Outcome:
    return hostile.Outcome("robots", 400, 400, seconds, gap, worker, 10.0, 50)


def test_an_attack_is_judged_by_time_gap_and_memory() -> None:
    assert outcome().missed() == []
    assert outcome(seconds=None).missed() == outcome(seconds=17.0).missed() == ["time"]
    assert outcome(gap=1.5, worker=600.0).missed() == ["gap", "memory"]
    assert "| 13.0 | 1.50 | 200 | 10 | 50 | **gap** |" in hostile.outcomes_table([outcome(gap=1.5)])


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
    log = tmp_path / "log"

    async def ask() -> bytes:
        port, ready = servers.free_port("0.0.0.0"), asyncio.Event()
        attack = asyncio.create_task(hostile_servers.serve(name, port, 0, log, ready.set))
        await ready.wait()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: bad0.test\r\n\r\n")
        start = await reader.readexactly(9)
        writer.close()
        attack.cancel()
        return start

    assert asyncio.run(ask()) == b"HTTP/1.1 "
    assert servers.requests(log)[0][1] == "bad0.test /"
