"""Crawls that are killed, interrupted and restarted lose no URL and keep every host's delay."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.crawl.archive import check, record_at
from tests.crawls import NO_NAMES, Crawl, CrawlResult, scrapy, until
from tests.frontier import processes
from tests.nameserver import Nameserver, Record
from tests.preloaded import OWN_WORKERS
from tests.web import LinkGraph, LocalWeb, Reply, generated_web
from webcrawl.engine.embedded import answers
from webcrawl.engine.keys import name_of

StartCrawl = Callable[..., Crawl]
StartWeb = Callable[..., LocalWeb]

SITES = ("127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.1.4")
DELAY = 0.1


def frontier(data_dir: Path) -> dict[str, Any]:
    """Returns the report of `scrapy status --json`."""
    done = scrapy("status", "--json", "-s", f"DATA_DIR={data_dir}", "-s", f"DNS_SERVERS={NO_NAMES}")
    return dict(json.loads(done.stdout))


def kill_server(data_dir: Path, *, with_keeper: bool = False) -> None:
    """Sends SIGKILL to the embedded valkey-server, and to its keeper only if told so."""
    with redis.Redis(unix_socket_path=str(data_dir / "engine" / "valkey.sock")) as client:
        pid = client.info("server")["process_id"]
    if with_keeper:
        keeper = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        os.kill(int(keeper), signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)


def is_blocked(data_dir: Path, host: str) -> bool:
    """Whether the engine blocks a host for more than a second."""
    with redis.Redis(unix_socket_path=str(data_dir / "engine" / "valkey.sock")) as client:
        records = [client.hget(key, "until") for key in client.scan_iter(f"*:name:{name_of(host)}")]
        seconds, _ = client.time()
    return any(int(record or 0) > (seconds + 1) * 1000 for record in records)


class Run:
    """One crawl of a generated web in several runs."""

    def __init__(self, start_crawl: StartCrawl, web: LocalWeb, pages: int, **settings: Any) -> None:
        self.web = web
        self.graph: LinkGraph = generated_web(21, web, pages=pages)
        self.seeds = [web.url(label) for label in web.sites]
        self._start = start_crawl
        self._settings = {"DOWNLOAD_DELAY": DELAY, "tuned": {"lease_urls": 5}, **settings}

    def start(self, **options: Any) -> Crawl:
        return self._start("broad", self.seeds, **self._settings, **options)

    def start_and_kill(self, pages: int, kill: Callable[[Crawl], object] = Crawl.kill) -> Crawl:
        """Starts the crawl and kills it after `pages` further requests."""
        crawl = self.start()
        goal = len(self.web.hits) + pages
        until(lambda: len(self.web.hits) >= goal, crawl)
        kill(crawl)
        return crawl

    def has_seen(self, requests: int) -> bool:
        return len(self.web.hits) >= requests

    def assert_complete(self, result: CrawlResult, leased: int) -> None:
        """Asserts that every page is stored, and that at most `leased` fetches were repeated and counted."""
        assert result.returncode == 0, result.stderr
        reachable = self.graph.reachable(*self.seeds)
        asked = Counter(self.web.urls())
        again = asked.total() - len(asked)
        rows = {row["url"]: row for row in result.rows()}
        assert rows.keys() == asked.keys() == reachable
        assert {row["status"] for row in rows.values()} == {200}
        summary = result.summary
        # a worker that is killed again may not have reported a repeated fetch, but the last fetch of a URL counts
        assert sum(times > 1 for times in asked.values()) <= summary["fetched_again"] <= leased
        assert sum(row["fetches"] - 1 for row in rows.values()) <= again
        assert len(reachable) <= summary["pages"] <= len(reachable) + again
        assert (summary["finish_reason"], summary["queued"], summary["leased"]) == ("finished", 0, 0)
        assert (summary["dead_letters"], summary["exact_duplicates"]) == (0, 0)
        check(result.data_dir)
        for row in rows.values():
            assert record_at(result.data_dir, row).url == row["url"]

    def assert_polite(self, delay: float = DELAY) -> None:
        for label in self.web.sites:
            assert self.web.max_concurrency(label) == 1
            assert self.web.min_gap(label) >= delay


@pytest.mark.slow
def test_a_worker_killed_three_times_loses_no_page(
    start_crawl: StartCrawl, local_web: StartWeb, tmp_path: Path
) -> None:
    run = Run(start_crawl, local_web(*SITES), pages=70)
    leased = 0
    for pages in (8, 15, 15):
        run.start_and_kill(pages)
        leased += frontier(tmp_path / "data")["leased"]
    assert 0 < leased <= 3 * 10 * len(SITES)
    run.assert_complete(run.start().wait(), leased)
    run.assert_polite()


def test_an_engine_killed_with_its_worker_three_times_loses_no_page(
    start_crawl: StartCrawl, local_web: StartWeb
) -> None:
    run = Run(start_crawl, local_web(*SITES), pages=70)

    def kill_both(crawl: Crawl) -> None:
        kill_server(crawl.data_dir)
        crawl.kill()

    for pages in (8, 15, 15):
        run.start_and_kill(pages, kill_both)
    run.assert_complete(run.start().wait(), leased=3 * 10 * len(SITES))
    run.assert_polite()


def test_a_worker_outlives_a_killed_engine(start_crawl: StartCrawl, local_web: StartWeb) -> None:
    # after an engine restart, workers block all hosts for a fifth of a lease
    run = Run(start_crawl, local_web(*SITES), pages=100, FRONTIER_LEASE_SECONDS=10)
    crawl = run.start()
    for pages in (10, 30, 50):
        until(partial(run.has_seen, pages), crawl)
        # the last time, nobody but the worker is left to start the engine again
        kill_server(crawl.data_dir, with_keeper=pages == 50 and sys.platform == "linux")
    result = crawl.wait()
    run.assert_complete(result, leased=3 * 10 * len(SITES))
    run.assert_polite()
    assert "The engine is available again" in result.stderr
    assert processes.until(lambda: not answers(crawl.data_dir / "engine" / "valkey.sock"))


def test_a_worker_takes_over_the_hosts_of_a_killed_one(start_crawl: StartCrawl, local_web: StartWeb) -> None:
    """The survivor gets the hosts once the leases of the killed worker have expired."""
    run = Run(start_crawl, local_web(*SITES), pages=80, FRONTIER_LEASE_SECONDS=3)
    victim, survivor = run.start(), run.start()
    until(lambda: len(run.web.hits) >= 20, victim)
    victim.kill()
    run.assert_complete(survivor.wait(), leased=10 * len(SITES))
    run.assert_polite()


def test_a_worker_paused_beyond_its_leases_sends_no_request(
    start_crawl: StartCrawl, local_web: StartWeb
) -> None:
    """Another worker holds the hosts by then, so the leases of the paused worker are void."""
    run = Run(start_crawl, local_web(*SITES), pages=110, FRONTIER_LEASE_SECONDS=2)
    sleeper, other = run.start(), run.start()
    until(lambda: len(run.web.hits) >= 20, sleeper)
    os.killpg(sleeper.process.pid, signal.SIGSTOP)
    time.sleep(2.6)
    os.killpg(sleeper.process.pid, signal.SIGCONT)
    assert sleeper.wait().returncode == 0
    run.assert_complete(other.wait(), leased=10 * len(SITES))
    run.assert_polite()


def test_a_robots_txt_that_waited_beyond_its_lease_is_asked_for(
    start_crawl: StartCrawl, local_web: StartWeb
) -> None:
    """The worker stands still while the second request for robots.txt waits for its turn."""
    web, site = local_web(SITES[0]), SITES[0]
    web.put(site, "/robots.txt", Reply(status=301, headers={"Location": "/rules"}))
    web.put(site, "/rules", "User-agent: *\nDisallow: /no")
    web.put(site, "/", "home")
    crawl = start_crawl("broad", web.url(site), DOWNLOAD_DELAY=1, FRONTIER_LEASE_SECONDS=1)
    until(lambda: bool(web.hits), crawl)
    os.killpg(crawl.process.pid, signal.SIGSTOP)
    time.sleep(1.2)
    os.killpg(crawl.process.pid, signal.SIGCONT)
    crawl.wait()
    assert web.paths(site) == ["/robots.txt", "/rules", "/"]


def test_a_request_delayed_beyond_its_lease_is_not_sent(start_crawl: StartCrawl, local_web: StartWeb) -> None:
    """The request waits for a DNS answer while its worker is paused and another takes over the host."""
    web = local_web("shop.example")
    web.put("shop.example", "/", "".join(f"<a href=/{n}>{n}</a>" for n in range(24)))
    web.put("shop.example", "*", lambda hit: Reply(hit.path))
    zone = {"shop.example": [Record("A", "127.0.0.1", ttl=0)]}
    seed = web.url("shop.example")
    options = {"DOWNLOAD_DELAY": 0.2, "FRONTIER_LEASE_SECONDS": 2}
    with Nameserver(zone) as slow, Nameserver(zone) as quick:
        sleeper = start_crawl("broad", seed, DNS_SERVERS=slow.address, **options)
        until(lambda: len(web.hits) >= 5, sleeper)
        slow.hold()
        asked = slow.count("shop.example")
        until(lambda: slow.count("shop.example") > asked, sleeper)
        os.killpg(sleeper.process.pid, signal.SIGSTOP)
        seen = len(web.hits)
        other = start_crawl("broad", seed, DNS_SERVERS=quick.address, **options)
        until(lambda: len(web.hits) > seen + 1, other)
        os.killpg(sleeper.process.pid, signal.SIGCONT)
        until(lambda: "was lost" in sleeper.stderr, sleeper)
        slow.release()
        for crawl in (sleeper, other):
            assert crawl.wait().returncode == 0, crawl.stderr
    assert set(web.urls()) == {seed, *(f"{seed}{n}" for n in range(24))}
    assert web.max_concurrency("shop.example") == 1
    assert web.min_gap("shop.example") >= 0.2


def test_a_restart_keeps_crawl_delay_and_retry_after(start_crawl: StartCrawl, local_web: StartWeb) -> None:
    slow, busy = SITES[:2]
    run = Run(start_crawl, local_web(slow, busy), pages=10)
    web = run.web
    web.put(slow, "/robots.txt", "User-agent: *\nCrawl-delay: 3\n")
    home, refusals = web.sites[busy]["/"], iter([Reply("busy", status=429, headers={"Retry-After": "5"})])
    web.put(busy, "/", lambda hit: next(refusals, Reply(str(home))))
    crawl = run.start()
    until(lambda: len(web.log(slow)) == 2 and is_blocked(crawl.data_dir, web.host(busy)), crawl)
    crawl.kill()
    again = run.start()
    until(lambda: len(web.log(slow)) >= 3 and len(web.log(busy)) >= 3, again)
    assert web.min_gap(slow) >= 3.0
    before, after = web.log(busy)[1:3]
    assert (before.status, after.status) == (429, 200)
    assert after.started - before.finished >= 5.0


def test_ctrl_c_stops_gracefully_and_the_crawl_resumes(start_crawl: StartCrawl, local_web: StartWeb) -> None:
    run = Run(start_crawl, local_web(*SITES), pages=60)
    crawl = run.start_and_kill(20, Crawl.interrupt)
    result = crawl.wait()
    assert "Run the same command to continue" in result.stderr
    assert "Traceback" not in result.stderr
    summary = result.summary
    assert (summary["leased"], summary["finish_reason"]) == (0, "shutdown")
    assert summary["queued"] > 0
    stored = {row["url"] for row in result.rows()}
    assert stored == set(run.web.urls()), "requests in flight must be finished and stored"
    result = run.start().wait()
    assert "Resuming crawl 'broad'" in result.stderr
    run.assert_complete(result, leased=0)
    run.assert_polite()


def test_ctrl_c_stops_all_workers_gracefully(start_crawl: StartCrawl, local_web: StartWeb) -> None:
    """The signal reaches the whole process group, as from a terminal."""
    run = Run(start_crawl, local_web(*SITES), pages=60)
    crawl = run.start(command=("workers", "2"), env=OWN_WORKERS)
    until(lambda: len(run.web.hits) >= 20, crawl)
    crawl.interrupt()
    result = crawl.wait()
    assert "Run the same command to continue" in result.stderr
    logs = "".join(path.read_text() for path in (result.data_dir / "logs").iterdir())
    assert "Traceback" not in result.stderr + logs
    assert "unclean" not in result.stderr + logs
    assert (result.summary["leased"], result.summary["finish_reason"]) == (0, "shutdown")
    run.assert_complete(run.start().wait(), leased=0)
    run.assert_polite()


def test_the_engine_exits_after_the_last_worker(start_crawl: StartCrawl, local_web: StartWeb) -> None:
    """The engine exits even when the worker was killed."""
    run = Run(start_crawl, local_web(SITES[0]), pages=60)
    crawl = run.start()
    until(lambda: len(run.web.hits) >= 5, crawl)
    socket = crawl.data_dir / "engine" / "valkey.sock"
    with redis.Redis(unix_socket_path=str(socket)) as client:
        pid = client.info("server")["process_id"]
    crawl.kill()
    deadline = time.monotonic() + 60
    while _is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _is_running(pid)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc").is_dir() else True
    except (ProcessLookupError, FileNotFoundError):  # it may end in between
        return False
