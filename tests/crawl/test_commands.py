"""The project's `scrapy` commands, after a crawl and without one."""

from __future__ import annotations

import ctypes
import gzip
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, CrawlResult, crawl_hosts
from tests.nameserver import Nameserver, Record
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE, OTHER = "127.0.1.1", "127.0.1.2"
HERE = Project(CHECKOUT)


class Stopped:
    """A crawl of two sites that reached its page limit: some pages are stored, others are queued."""

    def __init__(self, web: LocalWeb, result: CrawlResult) -> None:
        self.web = web
        self.result = result

    def scrapy(self, *words: str, code: int = 0) -> str:
        return HERE.scrapy(*words, "-s", f"DATA_DIR={self.result.data_dir}", code=code)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    folder = tmp_path_factory.mktemp("stopped")
    with LocalWeb(SITE, OTHER) as web:
        web.put(SITE, "/robots.txt", "User-agent: *\nDisallow: /private\nCrawl-delay: 0.05\n")
        links = "".join(f"<a href=/page{n}>{n}</a>" for n in range(30))
        # a control character that would move the cursor of a terminal
        head = "<meta charset=utf-8><title>Home</title><meta name=description content='a\x9b2J'>"
        web.put(SITE, "/", Reply(head + links, headers={"ETag": '"abc"', "X-Shown": "yes"}))
        web.put(OTHER, "/", "<title>Other</title>")
        yield Stopped(
            web, crawl_hosts([web.url(OTHER), web.url(SITE)], folder, CRAWL_MAX_PAGES=2, CRAWL_ID="only")
        )


def test_frontier_shows_counts_and_busiest_hosts(stopped: Stopped) -> None:
    assert stopped.result.summary["pages"] == 2, stopped.result.stderr
    report = json.loads(stopped.scrapy("status", "--json"))
    summary = stopped.result.summary
    for name in ("queued", "leased", "seen_urls", "dead_letters", "pages", "responses"):
        assert report[name] == summary[name], name
    assert report["queued"] == 30
    busiest = {"host": stopped.web.host(SITE), "queued": 30, "leased": False}
    assert report["busiest_hosts"][0] == busiest | {"waiting": 0, "next_attempt": None}
    text = stopped.scrapy("status")
    assert stopped.web.host(SITE) in text
    assert "30" in text
    assert "links looked up" in text
    assert "dead letters" not in text and "paused" not in text
    everything = stopped.scrapy("status", "--all")
    assert "dead letters" in everything and re.search(r"paused +│ no ", everything)


def test_host_shows_a_table_or_json(stopped: Stopped) -> None:
    host = stopped.web.host(SITE)
    state = json.loads(stopped.scrapy("host", host, "--json", "--max-pages", "40"))
    assert (state["queued"], state["limits"]["pages"], state["parked"]) == (30, 40, None)
    table = stopped.scrapy("host", host, "--max-pages", "-1")
    assert host in table and "{" not in table
    cells = {
        line.split("│")[1].strip(): line.split("│")[2].strip() for line in table.splitlines() if "│" in line
    }
    assert cells["queued"] == "30"
    # no worker is alive any more that could name the cause: robots.txt says 0.05, the tests' DOWNLOAD_DELAY less
    assert cells["delay"] == "0.05 s"


def test_a_host_without_scheme_is_the_one_that_the_crawl_knows(stopped: Stopped) -> None:
    host = stopped.web.host(SITE)
    assert host.startswith("http://")
    state = json.loads(stopped.scrapy("host", host.removeprefix("http://"), "--json"))
    assert (state["host"], state["queued"]) == (host, 30)
    other = f"https://{host.removeprefix('http://')}"
    assert f"has never had a URL of {other}, but it knows {host}" in stopped.scrapy("host", other, code=1)


def test_a_resumed_crawl_keeps_the_items_of_earlier_runs(
    local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<a href=/a>a</a>")
    web.put(SITE, "/a", "a")
    lines, whole = tmp_path / "items.jsonl", tmp_path / "items.json"
    options = {
        "command": ("crawl", "-O", str(lines), "-O", str(whole)),
        "ROBOTSTXT_OBEY": False,
        "data_dir": tmp_path / "data",
    }
    for path in (lines, whole):
        path.write_text("of another crawl")
    first = run_crawl("broad", [web.url(SITE)], CRAWL_MAX_PAGES=1, **options)
    assert [json.loads(line)["url"] for line in lines.read_text().splitlines()] == [web.url(SITE)]
    second = run_crawl("broad", [web.url(SITE)], **options)
    assert second.summary["pages"] == 2, second.stderr
    expected = [web.url(SITE), web.url(SITE, "/a")]
    assert [json.loads(line)["url"] for line in lines.read_text().splitlines()] == expected
    assert [item["url"] for item in json.loads(whole.read_text())] == expected[1:]
    earlier = json.loads((tmp_path / "items-earlier-1.json").read_text())
    assert [item["url"] for item in earlier] == expected[:1]
    assert f"{lines} has items of earlier runs: its new items are appended to it" in second.stderr
    assert "it is now items-earlier-1.json" in second.stderr
    archive = b"".join(gzip.decompress(path.read_bytes()) for path in (first.data_dir / "warc").glob("*.gz"))
    assert b"\r\nrobots: ignore\r\n" in archive
    assert "pages       1 from 1 host in" in first.stderr


def test_frontier_of_an_unknown_crawl_is_refused(stopped: Stopped) -> None:
    refused = stopped.scrapy("status", "--json", "nosuch", code=1)
    assert "there is no crawl 'nosuch'" in refused
    assert refused.endswith("; existing crawls: only\n")


def test_commands_take_the_only_crawl_and_name_several(
    stopped: Stopped, valkey: redis.Redis, redis_url: str, tmp_path: Path
) -> None:
    assert json.loads(stopped.scrapy("status", "--json"))["crawl"] == "only"
    assert stopped.scrapy("stuck") == ""
    assert "Crawl 'only' is paused" in stopped.scrapy("pause")
    assert "Crawl 'only' continues" in stopped.scrapy("resume")
    assert "only" in stopped.scrapy("checkpoint", str(tmp_path / "checkpoint"))
    stopped.scrapy("export", "--format", "wacz", "-o", str(tmp_path / "only.wacz"))
    assert (tmp_path / "only.wacz").exists()
    assert "there is no crawl 'other'" in stopped.scrapy("status", "-s", "CRAWL_ID=other", code=1)
    assert "there is no crawl 'broad'" in stopped.scrapy("status", "broad", code=1)
    valkey.hset("wc:crawls", mapping={"first": 16, "second": 16})
    several = stopped.scrapy("status", "-s", f"REDIS_URL={redis_url}", code=1)
    assert several.endswith(
        "the server of REDIS_URL has several crawls: choose with --crawl; existing crawls: first, second\n"
    )
    valkey.hset("wc:crawls", "broad", 16)
    words = ("status", "--json", "-s", f"REDIS_URL={redis_url}")
    assert json.loads(stopped.scrapy(*words))["crawl"] == "broad"


def test_page_shows_the_stored_row_and_body(stopped: Stopped) -> None:
    home = stopped.web.url(SITE)
    row = json.loads(stopped.scrapy("page", home, "--json"))
    assert (row["url"], row["status"], row["title"], row["etag"]) == (home, 200, "Home", '"abc"')
    text = stopped.scrapy("page", home, "--headers")
    assert "Home" in text
    assert "X-Shown: yes" in text
    assert "a\\u009b2J" in text and "\x9b" not in text
    assert stopped.scrapy("page", home, "--body") == stopped.web.sites[SITE]["/"].body  # type: ignore[union-attr]


def test_page_refuses_an_unknown_url_in_one_line(stopped: Stopped) -> None:
    url = stopped.web.url(SITE, "/never")
    output = stopped.scrapy("page", url, "--row", code=1)
    assert url in output
    assert len(output.splitlines()) == 1


def copied(stopped: Stopped, folder: Path) -> Stopped:
    """Returns the stopped crawl with stores that a test may damage."""
    data = folder / "data"
    shutil.copytree(stopped.result.data_dir, data, ignore=shutil.ignore_patterns("engine"))
    return Stopped(stopped.web, replace(stopped.result, data_dir=data))


def test_wacz_says_what_a_damaged_archive_lacks(stopped: Stopped, tmp_path: Path) -> None:
    damaged, packed = copied(stopped, tmp_path), tmp_path / "only.wacz"
    (warc,) = (damaged.result.data_dir / "warc").glob("*.warc.gz")
    home = stopped.web.url(SITE)
    row = json.loads(stopped.scrapy("page", home, "--json"))
    with warc.open("r+b") as file:
        file.seek(row["warc_offset"] + row["warc_length"] // 2)
        file.write(bytes(20))
    shutil.copy(warc, warc.with_name(warc.name.replace("-00001-", "-00002-")))
    _, *told = damaged.scrapy("wacz", "only", "-o", str(packed), "--text", code=1).splitlines()
    assert [line.partition(": ")[0] for line in told] == ["Left out"] * 2
    assert "-00002-" in told[0] and "it has no index" in told[0]
    assert told[1].startswith(f"Left out: {home}: {warc.name} at byte {row['warc_offset']}: ")
    with zipfile.ZipFile(packed) as file:
        assert f"archive/{warc.name}" in file.namelist()
    os.truncate(warc, warc.stat().st_size // 2)
    told = damaged.scrapy("wacz", "only", "-o", str(packed), "--force", code=1).splitlines()
    assert [line for line in told if warc.name in line] == [
        f"Left out: {warc.name}: it is cut short: its index has a record beyond its end"
    ]
    with zipfile.ZipFile(packed) as file:
        assert not [name for name in file.namelist() if name.endswith(warc.name)]


def test_page_shows_no_more_of_a_crafted_record_than_a_fetch_keeps(stopped: Stopped, tmp_path: Path) -> None:
    crafted, home, most = copied(stopped, tmp_path), stopped.web.url(SITE), 100_000
    (warc,) = (crafted.result.data_dir / "warc").glob("*.warc.gz")
    body = gzip.compress(b"<p>" + b"word " * 8_000_000, 1)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n"
    fields = (
        f"WARC-Type: response\r\nWARC-Target-URI: {home}\r\nContent-Type: application/http; msgtype=response"
    )
    start = f"WARC/1.1\r\n{fields}\r\nContent-Length: {len(head + body)}\r\n\r\n".encode()
    member = gzip.compress(start + head + body + b"\r\n\r\n")
    with warc.open("ab") as file:
        file.write(member)
    with sqlite3.connect(crafted.result.data_dir / "metadata.db") as connection:
        connection.execute(
            "UPDATE pages SET warc_offset = ?, warc_length = ? WHERE url = ?",
            (warc.stat().st_size - len(member), len(member), home),
        )
    connection.close()
    limit = ("-s", f"DOWNLOAD_MAXSIZE={most}")
    assert len(crafted.scrapy("page", home, "--html", *limit)) in range(most // 2, most + 2)
    assert len(crafted.scrapy("page", home, "--text", *limit)) in range(most // 2, most + 2)


READ_ONLY = """
import json, sys
from scrapy.cmdline import execute
for words in json.loads(sys.argv[1]):
    try:
        execute(["scrapy", *words])
    except SystemExit as end:
        print("exit", end.code, flush=True)
"""
WITHOUT_WRITING = 24, 1
"""prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE): permissions count for root too."""


@pytest.mark.skipif(sys.platform != "linux" and os.geteuid() == 0, reason="root may write everywhere")
def test_stored_pages_are_read_where_nothing_may_be_written(stopped: Stopped, tmp_path: Path) -> None:
    data, home = tmp_path / "data", stopped.web.url(SITE)
    shutil.copytree(stopped.result.data_dir, data, ignore=shutil.ignore_patterns("*.sock"))
    files = set(data.rglob("*"))
    for path in (*files, data):
        path.chmod(0o555 if path.is_dir() else 0o444)
    commands = [
        ["page", home, "--body"],
        ["export", "-o", f"{tmp_path}/export"],
        ["export", "--format", "wacz", "-o", f"{tmp_path}/only.wacz"],
    ]
    root = os.geteuid() == 0
    try:
        done = subprocess.run(
            [
                *(sys.executable, "-c", READ_ONLY),
                json.dumps([[*words, "-s", f"DATA_DIR={data}"] for words in commands]),
            ],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=(lambda: ctypes.CDLL(None).prctl(*WITHOUT_WRITING, 0, 0, 0)) if root else None,
        )
        assert set(data.rglob("*")) == files
    finally:
        for path in (data, *files):
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert done.stdout.count("exit 0") == 3, done.stdout + done.stderr
    assert "<title>Home</title>" in done.stdout
    assert "2 rows in 1 file" in done.stdout
    assert "Its list has 2 HTML pages." in done.stdout


def test_checkurl_shows_every_verdict(stopped: Stopped) -> None:
    url = stopped.web.host(SITE) + "/private/../private/x?b=2&utm_source=mail&a=1#part"
    report = json.loads(stopped.scrapy("checkurl", url, "--json"))
    assert report["url"] == stopped.web.host(SITE) + "/private/x?b=2&utm_source=mail&a=1"
    assert "utm_source" not in report["canonical"]
    assert report["host"] == stopped.web.host(SITE)
    assert report["robots"].startswith("disallowed")
    assert "SchemeFilter" in report["filters"]
    assert "ScopeFilter" in report["filters"]
    assert report["address"] == f"allowed, because a seed has this host: {SITE}"
    assert report["seen"] == "no"
    text = stopped.scrapy("checkurl", stopped.web.url(SITE, "/page3"))
    assert "allowed, Crawl-delay 0.05" in text
    assert "passes it" in text
    assert "yes: crawl 'only' has queued it before" in text


def test_checkurl_shows_the_weight_and_the_level(stopped: Stopped) -> None:
    page, url = stopped.web.url(SITE), stopped.web.url(SITE, "/a/b/c/d/e?x=1")
    options = ["--from", page, "--depth", "5", "--text", "Next page"]
    for setting in (
        'ANCHOR_WORDS={"next": 1}',
        'URL_LEVELS=[["/e", "+1"], ["zz", 0]]',
        'LINK_RULES=[["/$", "d$"]]',
    ):
        options += ["-s", setting]
    report = json.loads(stopped.scrapy("checkurl", url, "--json", *options))
    weights = {name: term["weight"] for name, term in report["terms"].items()}
    assert weights == {
        **{"LinkDepth": -0.375, "PathDepth": -0.25, "Length": 0.0, "Parameters": -0.375, "DateInUrl": 0.0},
        **{"AnchorWords": 1.0, "Freshness": 0.0, "Importance": 0.0, "PatternRecord": 0.0},
    }
    assert (report["weight"], report["URL_LEVELS"], report["level"]) == (0.0, '("/e", "+1")', 4)
    assert report["LINK_RULES"] == 'does not follow it: ("/$", "d$") matches the page'
    text = stopped.scrapy("checkurl", url)
    assert "-0.3750  Parameters sort, filter" in text
    assert "LINK_RULES" not in text


def test_checkurl_of_an_unknown_host_shows_verdicts(stopped: Stopped) -> None:
    report = json.loads(stopped.scrapy("checkurl", "http://127.0.9.9/x", "--json", "--scope", "host"))
    assert report["filters"]["ScopeFilter"] == "drops it"
    assert "unknown" in report["robots"]
    assert report["address"].startswith("refused: 127.0.9.9 is loopback")
    assert report["seen"] == "no"
    output = stopped.scrapy("checkurl", "http://[", code=1)
    assert len(output.splitlines()) == 1


def test_workers_requires_a_number_of_workers() -> None:
    assert "number of workers" in HERE.scrapy("workers", "none", "broad", code=2)


def test_a_generated_spider_is_listed_and_runs(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    ours = project.scrapy("list").split()
    assert "broad" in ours and "shop" not in ours
    project.scrapy("genspider", "shop", "shop.example")
    assert sorted(project.scrapy("list").split()) == sorted([*ours, "shop"])
    web = local_web("shop.example")
    web.put("shop.example", "/", "a shop")
    spider = project.folder / "spiders" / "shop.py"
    spider.write_text(spider.read_text().replace("https://shop.example", web.host("shop.example")))
    with Nameserver({"shop.example": [Record("A", "127.0.0.1")]}) as nameserver:
        options = {"project": project.folder, "DNS_SERVERS": nameserver.address}
        run_crawl("shop", timeout=60, **options)
    assert web.paths("shop.example") == ["/robots.txt", "/"]


def test_an_unknown_spider_is_named_in_one_line() -> None:
    output = HERE.scrapy("crawl", "nosuch", code=2)
    assert "nosuch" in output
    assert "Traceback" not in output
