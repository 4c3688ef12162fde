"""Operator commands: requeue dead letters, pause and resume a crawl, set limits of a host."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, Crawl, CrawlResult, until
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartCrawl = Callable[..., Crawl]
StartWeb = Callable[..., LocalWeb]

SITE, OTHER = "127.0.1.1", "127.0.1.2"


class Operator:
    """Runs scrapy commands on the crawl of a data folder."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def scrapy(self, *words: str, code: int = 0) -> str:
        return Project(CHECKOUT).scrapy(*words, "-s", f"DATA_DIR={self._data_dir}", code=code)

    def letters(self, *options: str) -> dict[str, str]:
        """Returns URL -> reason of each dead letter."""
        lines = [json.loads(line) for line in self.scrapy("stuck", "--json", *options).splitlines()]
        return {line["url"]: line["reason"] for line in lines}


def test_dead_letters_are_listed_and_requeued(crawl: RunCrawl, local_web: StartWeb) -> None:
    web = local_web(SITE, OTHER)
    for site in (SITE, OTHER):
        web.put(site, "/", "<a href=/good>1</a><a href=/bad>2</a>")
        web.put(site, "/good", "good")
        web.put(site, "/bad", Reply(abort=True))
    # the commands must find the number of shards themselves
    seeds = [web.url(SITE), web.url(OTHER)]
    options = {"FRONTIER_MAX_ATTEMPTS": 1, "FRONTIER_SHARDS": 64, "POLITENESS_BACKOFF": 0.6}
    first = crawl(seeds, **options)
    bad = {site: web.url(site, "/bad") for site in (SITE, OTHER)}
    operator = Operator(first.data_dir)
    assert set(operator.letters()) == set(bad.values())
    assert "disconnected" in operator.letters()[bad[SITE]]
    assert set(operator.letters("--host", web.host(SITE))) == {bad[SITE]}
    assert set(operator.letters("--reason", "disconnected")) == set(bad.values())
    assert not operator.letters("--reason", "no such reason")
    plain = operator.scrapy("stuck", "--host", web.host(OTHER))
    assert bad[OTHER] in plain
    assert "disconnected" in plain

    assert operator.scrapy("stuck", "--requeue", "--reason", "no such reason").startswith("0 dead letters")
    assert operator.scrapy("stuck", "--requeue", "--host", web.host(SITE)).startswith("1 dead letter queued")
    assert set(operator.letters()) == {bad[OTHER]}
    web.put(SITE, "/bad", "mended")
    second = crawl(seeds, data_dir=first.data_dir, **options)
    assert web.paths(SITE).count("/bad") == 2
    assert web.paths(OTHER).count("/bad") == 1, "only the named host is requeued"
    assert {row["url"]: row["status"] for row in second.rows()}[bad[SITE]] == 200
    assert set(operator.letters()) == {bad[OTHER]}


def test_dead_letters_of_an_unknown_crawl_or_host_are_refused_in_one_line(
    crawl: RunCrawl, local_web: StartWeb
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "home")
    operator = Operator(crawl([web.url(SITE)]).data_dir)
    assert operator.letters() == {}
    for words, what in (
        (("nosuch",), "there is no crawl 'nosuch'"),
        (("--host", "://"), "'://' is not a host"),
    ):
        output = operator.scrapy("stuck", *words, code=1)
        assert what in output
        assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    "words", [("--delay", "abc"), ("--delay", "-5"), ("--max-pages", "-7"), ("--max-bytes", "1.5")]
)
def test_a_wrong_limit_of_a_host_is_refused_by_name(words: tuple[str, str], tmp_path: Path) -> None:
    output = Operator(tmp_path).scrapy("host", "http://a.test", *words, code=2)
    assert f"argument {words[0]}: {words[1]!r} must be" in output


def test_a_data_folder_that_cannot_be_created_is_named(run_crawl: RunCrawl, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    result = run_crawl("broad", ["http://127.0.1.1:9/"], data_dir=tmp_path / "file" / "data", status=2)
    assert (result.returncode, result.stderr.splitlines()) == (
        2,
        [f"scrapy crawl: DATA_DIR: cannot create the folder '{tmp_path}/file/data' (Not a directory)"],
    )


def test_a_paused_crawl_fetches_nothing_until_it_is_resumed(
    start_crawl: StartCrawl, local_web: StartWeb
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "".join(f"<a href=/page{n}>{n}</a>" for n in range(40)))
    for n in range(40):
        web.put(SITE, f"/page{n}", str(n))
    running = start_crawl("broad", [web.url(SITE)], DOWNLOAD_DELAY=0.2, PROGRESS_INTERVAL=0.2)
    operator = Operator(running.data_dir)
    until(lambda: len(web.paths(SITE)) > 3, running)
    assert "is paused; the running requests of 1 worker are" in operator.scrapy("pause")
    until(lambda: "paused, " in running.stderr, running)
    report = json.loads(operator.scrapy("status", "--json"))
    until(lambda: json.loads(operator.scrapy("status", "--json"))["leased"] == 0, running)
    paths_when_paused = web.paths(SITE)
    assert (report["paused"], report["workers"]) == (True, 1)
    assert "is already paused" in operator.scrapy("pause")
    assert web.paths(SITE) == paths_when_paused, "it fetches while it is paused"
    assert len(paths_when_paused) < 42
    assert "continues with 1 worker." in operator.scrapy("resume")
    assert running.wait().returncode == 0
    assert len(web.paths(SITE)) == len(set(web.paths(SITE))) == 42
    assert "is not paused" in operator.scrapy("resume")


def test_a_hosts_page_limit_ends_the_crawl_and_can_be_raised(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "".join(f"<a href=/{n}>{n}</a>" for n in range(9)))
    for n in range(9):
        web.put(SITE, f"/{n}", f"{n}")
    options: dict[str, Any] = {"timeout": 60.0}
    first = run_crawl("broad", [web.url(SITE)], HOST_MAX_PAGES=4, **options)
    assert (first.returncode, first.summary["finish_reason"]) == (0, "finished")
    assert (first.summary["pages"], first.summary["parked"]) == (4, 6)
    assert "see `scrapy host`" in first.stderr
    updated = run_crawl(
        web.host(SITE), command=("host", "--json", "--max-pages", "6"), data_dir=first.data_dir
    )
    assert json.loads(updated.stdout)["limits"]["pages"] == 6, updated.stderr
    second = run_crawl("broad", [web.url(SITE)], HOST_MAX_PAGES=4, data_dir=first.data_dir, **options)
    assert second.summary["pages"] == 6
