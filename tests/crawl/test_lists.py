"""`scrapy pages`, `crawls` and `stuck` after a crawl, and the former names of commands."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crawls import CHECKOUT, NO_NAMES, crawl_hosts, scrapy
from tests.web import LocalWeb, Reply
from webcrawl.entry import FORMER

SITE, OTHER = "127.0.1.1", "127.0.1.2"


class Crawled:
    """A finished crawl of two sites: with HTTP errors, a broken PDF, and connections that the server cuts."""

    def __init__(self, web: LocalWeb, folder: Path) -> None:
        self.web = web
        for site in (SITE, OTHER):
            web.put(
                site,
                "/",
                "<html lang=en><title>Home</title><a href=/cut>1</a><a href=/gone>2</a><a href=/x.pdf>3</a>",
            )
            web.put(site, "/cut", Reply(abort=True))
            web.put(site, "/gone", Reply("<title>Gone</title>", status=410))
            web.put(site, "/x.pdf", Reply("%PDF-1.4 x", headers={"Content-Type": "application/pdf"}))
        seeds = [web.url(SITE), web.url(OTHER)]
        self.result = crawl_hosts(
            seeds,
            folder,
            FRONTIER_MAX_ATTEMPTS=1,
            CRAWL_ID="autumn",
            ROBOTSTXT_OBEY=False,
            POLITENESS_BACKOFF=0.2,
        )

    def run(self, *words: str, status: int = 0) -> tuple[str, str]:
        data = ("-s", f"DATA_DIR={self.result.data_dir}", "-s", f"DNS_SERVERS={NO_NAMES}")
        done = scrapy(*words, *data, status=status)
        assert "Traceback" not in done.stderr
        return done.stdout, done.stderr

    def json(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(*words, "--json")[0].splitlines()]


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    with LocalWeb(SITE, OTHER) as web:
        yield Crawled(web, tmp_path_factory.mktemp("lists"))


def test_pages_are_listed_by_filters(crawled: Crawled) -> None:
    web = crawled.web
    gone = {web.url(site, "/gone") for site in (SITE, OTHER)}
    assert {row["url"] for row in crawled.json("pages", "--status", "4xx")} == gone
    (row,) = crawled.json("pages", "--status", "410", "--host", web.host(OTHER))
    assert (row["url"], row["title"], row["mime_type"], row["crawl"]) == (
        *(web.url(OTHER, "/gone"), "Gone", "text/html", "autumn"),
    )
    types = [row["mime_type"] for row in crawled.json("pages", "--type", "application/*")]
    assert types == ["application/pdf"] * 2
    urls = [row["url"] for row in crawled.json("pages", "--sort", "url")]
    assert len(urls) == 8 and urls == sorted(urls)
    assert [row["url"] for row in crawled.json("pages", "--sort=-url", "--limit", "1")] == urls[-1:]
    assert {row["url"] for row in crawled.json("pages", "--status", "none")} == {
        web.url(site, "/cut") for site in (SITE, OTHER)
    }
    assert crawled.json("pages", "--until", "2020-01-01") == []


def test_pages_are_an_aligned_table(crawled: Crawled) -> None:
    out, err = crawled.run("pages", "--text", "Home", "--limit", "1")
    heading, row = out.splitlines()
    assert heading.split()[:5] == ["time", "status", "type", "language", "size"]
    assert row.index("200") == heading.index("status") and row.endswith("  Home")
    assert err == "1 row. There may be more: --limit 0 prints all.\n"
    assert crawled.run("pages", "--text", "nowhere") == ("", "0 rows.\n")
    for words, status, message in (
        (["--sort", "beauty"], 1, "'beauty' is no order: choose one of date, url"),
        (["--status", "many"], 1, "'many' is not"),
        (["--limit", "-1"], 2, "a limit from 0 on"),
    ):
        assert message in crawled.run("pages", *words, status=status)[1]


def test_crawls_are_listed_with_their_ends(crawled: Crawled, tmp_path: Path) -> None:
    (crawl,) = crawled.json("crawls")
    summary = crawled.result.summary
    assert (crawl["crawl"], crawl["state"], crawl["how"]) == ("autumn", "finished", "finished")
    assert (crawl["pages"], crawl["queued"]) == (summary["pages"], 0)
    assert crawl["started"] < crawl["ended"]
    out, err = crawled.run("crawls")
    heading, row = out.splitlines()
    numbers = ["pages", "checked", "pages/s", "checks/s", "queued"]
    assert heading.split() == ["crawl", "state", *numbers, "started", "ended", "how"]
    assert crawl["pages_per_second"] is crawl["checks_per_second"] is None, "no worker is alive"
    assert row.startswith("autumn  finished") and row.endswith("finished: there is nothing left to crawl")
    assert err == "1 crawl.\n"
    (tmp_path / "data" / "summaries").mkdir(parents=True)
    (tmp_path / "data" / "summaries" / "old.json").write_text(json.dumps(summary | {"queued": 3}))
    parked = summary | {"queued": 3, "parked": 3, "unchanged": 44}
    (tmp_path / "data" / "summaries" / "parked.json").write_text(json.dumps(parked))
    done = scrapy("crawls", "-s", f"DATA_DIR={tmp_path / 'data'}")
    old, blocked = done.stdout.splitlines()[1:]
    assert old.split()[:5] == ["old", "stopped", str(summary["pages"]), "0", "3"]
    assert blocked.split()[:5] == ["parked", "finished", str(summary["pages"]), "44", "3"]
    assert blocked.endswith("finished: what is left cannot be fetched now")
    empty = scrapy("crawls", "-s", f"DATA_DIR={tmp_path / 'nowhere'}")
    assert (empty.stdout, empty.stderr) == ("", "0 crawls.\n")


def test_stuck_has_dead_letters_and_unreadable_documents_by_time(crawled: Crawled) -> None:
    web = crawled.web
    rows = crawled.json("stuck")
    assert sorted((row["kind"], row["url"]) for row in rows) == [
        *sorted(("DEAD_LETTER", web.url(site, "/cut")) for site in (SITE, OTHER)),
        *sorted(("DOCUMENT", web.url(site, "/x.pdf")) for site in (SITE, OTHER)),
    ]
    assert [row["updated"] for row in rows] == sorted(row["updated"] for row in rows)
    assert [row["attempts"] for row in rows if row["kind"] == "DEAD_LETTER"] == [0, 0]
    assert len(crawled.json("stuck", "--host", web.host(OTHER))) == 2
    assert len(crawled.json("stuck", "--kind", "DOCUMENT", "--host", web.host(OTHER))) == 1
    assert {row["kind"] for row in crawled.json("stuck", "--reason", "disconnected")} == {"DEAD_LETTER"}
    out, err = crawled.run("stuck", "--kind", "DEAD_LETTER")
    assert "(the first attempt)" in out and err == "2 stuck pages.\n"
    assert "leave out --kind" in crawled.run("stuck", "--requeue", "--kind", "SCHEMA", status=2)[1]
    assert "leave out --host" in crawled.run("stuck", "--forget", "--reason", "x", status=2)[1]


def test_dead_letters_are_listed_without_the_database(crawled: Crawled, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    out, err = crawled.run("stuck", "-s", f"METADATA_URI=sqlite:///{tmp_path}/file/metadata.db")
    assert len(out.splitlines()) == 2
    assert err.startswith("Only dead letters are listed: ") and err.endswith("2 stuck pages.\n")


def test_an_unknown_host_is_said_to_be_unknown(crawled: Crawled) -> None:
    host = crawled.web.host(SITE)
    out, err = crawled.run("host", "nowhere.example", status=1)
    assert (out, err) == (
        *("", "scrapy host: crawl 'autumn' has never had a URL of https://nowhere.example\n"),
    )
    secure = f"https://{host.removeprefix('http://')}"
    err = crawled.run("host", secure, status=1)[1]
    assert err.endswith(f"a URL of {secure}, but it knows {host}\n")
    assert json.loads(crawled.run("host", host, "--json")[0])["known"] is True
    assert json.loads(crawled.run("host", "nowhere.example", "--json", status=1)[0])["known"] is False


def test_a_url_without_a_scheme_means_https(crawled: Crawled) -> None:
    (report,) = [json.loads(crawled.run("checkurl", "nowhere.example/a", "--json")[0])]
    assert report["url"] == "https://nowhere.example/a"


def test_the_state_of_a_crawl_is_with_its_figures(crawled: Crawled) -> None:
    assert json.loads(crawled.run("status", "--json")[0])["state"] == "finished"
    assert "crawl autumn: finished" in crawled.run("status")[0]


def test_an_empty_list_is_0_of_what_was_asked_for(crawled: Crawled) -> None:
    assert crawled.run("alarms") == ("", "0 notifications.\n")
    assert crawled.run("stuck", "--reason", "no such reason") == ("", "0 stuck pages.\n")


def test_a_listener_says_what_it_waits_for(crawled: Crawled) -> None:
    words = [sys.executable, "-m", "scrapy", "listen", "-d", str(crawled.result.data_dir)]
    with subprocess.Popen(words, cwd=CHECKOUT, stderr=subprocess.PIPE, text=True) as listener:
        assert listener.stderr is not None
        first, second = listener.stderr.readline(), listener.stderr.readline()
        listener.send_signal(signal.SIGINT)
        assert listener.wait(60) == 0
    assert first == "Nothing is published yet: run the crawl with LISTENERS_MAXLEN above 0.\n"
    assert second == (
        "Waiting: crawl 'autumn' is finished; --from-start reads the pages that the stream still has.\n"
    )


def test_former_names_work_and_say_the_present_ones(crawled: Crawled, tmp_path: Path) -> None:
    printed = {}
    for name, words in {
        "frontier": ["--json"],
        "deadletters": ["--json"],
        "wacz": ["autumn", "-o", str(tmp_path / "a.wacz")],
    }.items():
        printed[name], err = crawled.run(name, *words)
        assert err.splitlines()[0] == f"scrapy {name} is now: scrapy {FORMER[name]}"
    assert json.loads(printed["frontier"])["crawl"] == "autumn"
    letters = [json.loads(line) for line in printed["deadletters"].splitlines()]
    assert [list(letter) for letter in letters] == [["url", "reason", "time", "attempts", "queued_at"]] * 2
    assert (tmp_path / "a.wacz").stat().st_size > 0
    assert "--workers must be at least 1" in crawled.run("scheduler", "--workers", "0", status=2)[1]
