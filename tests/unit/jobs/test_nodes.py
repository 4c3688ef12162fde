"""Workers on scrapyd nodes, whose API a local server plays: choice, deaths, adoption, stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

import pytest

from tests.web import Hit, LocalWeb, Reply
from webcrawl.jobs.definition import Node
from webcrawl.jobs.nodes import NodeJobs, Nodes
from webcrawl.jobs.records import IterationState
from webcrawl.jobs.workers import MOST_RESTARTS, Ended

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CRAWL = "news-20260301T060000Z"
FORM = [("spider", "broad"), ("seeds", "https://a.example/"), ("setting", f"CRAWL_ID={CRAWL}")]
SITES = ["127.0.1.1", "127.0.1.2", "127.0.1.3"]


class Scrapyd:
    """One node: the jobs that it runs, and those that it has run."""

    def __init__(self, web: LocalWeb, site: str) -> None:
        self.running: list[str] = []
        self.finished: list[str] = []
        self.forms: list[list[tuple[str, str]]] = []
        self.cancelled: list[str] = []
        self.signals: list[str] = []
        self.away = False
        self.slots: int | None = None
        self.waiting = 0
        self.address = web.host(site)
        for name in ("daemonstatus", "listjobs", "schedule", "cancel"):
            web.put(site, f"/{name}.json", getattr(self, name))

    def answer(self, **facts: object) -> Reply:
        if self.away:
            return Reply(abort=True)
        return Reply(json.dumps({"status": "ok", **facts}), headers={"Content-Type": "application/json"})

    def daemonstatus(self, hit: Hit) -> Reply:
        return self.answer(pending=self.waiting, running=len(self.running), finished=len(self.finished))

    def listjobs(self, hit: Hit) -> Reply:
        assert hit.path.endswith("?project=shop")
        states = {"pending": [], "running": self.running, "finished": self.finished}
        return self.answer(**{name: [{"id": job} for job in jobs] for name, jobs in states.items()})

    def schedule(self, hit: Hit) -> Reply:
        form = parse_qsl(hit.body.decode())
        if dict(form)["project"] != "shop":
            return Reply('{"status": "error", "message": "project not found"}')
        self.forms.append(form)
        self.running.append(dict(form)["jobid"])
        return self.answer(jobid=dict(form)["jobid"])

    def cancel(self, hit: Hit) -> Reply:
        form = dict(parse_qsl(hit.body.decode()))
        job = form["job"]
        self.cancelled.append(job)
        self.signals.append(form["signal"])
        self.end(job)
        return self.answer(prevstate="running")

    def end(self, job: str) -> None:
        self.running.remove(job)
        self.finished.append(job)


class Crawl:
    """How the crawl ended, by the engine."""

    reason: str | None = None

    async def outcome(self) -> str | None:
        return self.reason


@pytest.fixture
def nodes(local_web: Callable[..., LocalWeb]) -> list[Scrapyd]:
    web = local_web(*SITES)
    return [Scrapyd(web, site) for site in SITES]


@pytest.fixture
def crawl() -> Crawl:
    return Crawl()


def workers(nodes: list[Scrapyd], crawl: Crawl, number: int, project: str = "shop") -> NodeJobs:
    api = Nodes([Node(node.address, node.slots) for node in nodes], project, asyncio.Lock())
    return NodeJobs(api, CRAWL, FORM, number, crawl.outcome)


def poll(jobs: NodeJobs, seconds: float = 0) -> Ended | None:
    return asyncio.run(jobs.poll(NOW + timedelta(seconds=seconds)))


def test_workers_go_to_the_nodes_with_the_fewest_jobs(nodes: list[Scrapyd], crawl: Crawl) -> None:
    nodes[0].running += ["other", "another"]
    jobs = workers(nodes, crawl, 3)
    assert poll(jobs) is None
    assert [len(node.running) for node in nodes] == [2, 2, 1]
    names = sorted(job for node in nodes for job in node.running if job.startswith(CRAWL))
    assert names == [f"{CRAWL}.{place}.1" for place in range(3)]
    assert [("project", "shop"), ("jobid", names[0]), *FORM] in [
        form for node in nodes for form in node.forms
    ]
    for node in nodes[1:]:
        for job in list(node.running):
            node.end(job)
    crawl.reason = "finished"
    assert poll(jobs) == (IterationState.FINISHED, "finished")


def test_workers_go_to_the_nodes_with_the_most_free_slots(nodes: list[Scrapyd], crawl: Crawl) -> None:
    nodes[0].slots, nodes[0].running = 8, ["other"] * 5
    nodes[1].slots = 2
    poll(workers(nodes, crawl, 6))
    assert [len(node.forms) for node in nodes] == [3, 2, 1], "the slots of the third are not known"


def test_a_node_with_waiting_jobs_comes_last(nodes: list[Scrapyd], crawl: Crawl) -> None:
    nodes[0].waiting = nodes[1].waiting = 1
    nodes[2].running = ["other"] * 6
    poll(workers(nodes, crawl, 1))
    assert [len(node.forms) for node in nodes] == [0, 0, 1]


def test_workers_wait_for_a_slot_without_end(
    nodes: list[Scrapyd], crawl: Crawl, caplog: pytest.LogCaptureFixture
) -> None:
    for node in nodes:
        node.slots, node.running = 1, ["other"]
    crawl.reason = "finished"  # a crawl without URLs
    jobs = workers(nodes, crawl, 2)
    assert [poll(jobs, second) for second in range(0, 3600, 60)] == [None] * 60
    assert not any(node.forms for node in nodes)
    assert [record.getMessage() for record in caplog.records] == [
        f"2 of 2 workers of {CRAWL} wait for a free slot on {', '.join(node.address for node in nodes)}"
    ]
    nodes[1].running, crawl.reason = [], None
    assert poll(jobs, 3601) is None and nodes[1].running == [f"{CRAWL}.0.1"]
    nodes[1].end(f"{CRAWL}.0.1")
    nodes[1].running = ["other"]
    # the one that died waits now, too
    assert [poll(jobs, second) for second in range(3700, 3800, 10)] == [None] * 10
    nodes[0].running, nodes[2].running = [], []
    assert poll(jobs, 3801) is None
    assert sorted(nodes[0].running + nodes[2].running) == [f"{CRAWL}.0.2", f"{CRAWL}.1.1"]
    assert "1 of 2 workers" in caplog.text


def test_a_crawl_that_ends_needs_no_more_workers(nodes: list[Scrapyd], crawl: Crawl) -> None:
    for node in nodes:
        node.slots, node.running = 1, ["other"]
    nodes[0].running = []
    jobs = workers(nodes, crawl, 3)
    assert poll(jobs) is None
    crawl.reason = "finished"
    assert poll(jobs, 10) is None
    nodes[0].end(f"{CRAWL}.0.1")
    assert poll(jobs, 20) == (IterationState.FINISHED, "finished")


def test_two_crawls_do_not_take_the_same_slot(nodes: list[Scrapyd], crawl: Crawl) -> None:
    for node in nodes:
        node.slots = 1
    lock = asyncio.Lock()
    places = [Node(node.address, node.slots) for node in nodes]
    both = [NodeJobs(Nodes(places, "shop", lock), name, FORM, 3, crawl.outcome) for name in ("one", "two")]

    async def begin() -> None:
        await asyncio.gather(*(jobs.poll(NOW) for jobs in both))

    asyncio.run(begin())
    assert [len(node.running) for node in nodes] == [1, 1, 1]


def test_a_worker_that_has_nothing_left_is_not_started_again(nodes: list[Scrapyd], crawl: Crawl) -> None:
    jobs = workers(nodes, crawl, 2)
    poll(jobs)
    crawl.reason = "max_pages"
    nodes[0].end(f"{CRAWL}.0.1")
    assert poll(jobs, 60) is None
    assert sum(len(node.forms) for node in nodes) == 2
    nodes[1].end(f"{CRAWL}.1.1")
    assert poll(jobs, 61) == (IterationState.FINISHED, "max_pages")


def test_a_worker_that_ends_early_starts_again_elsewhere(nodes: list[Scrapyd], crawl: Crawl) -> None:
    jobs = workers(nodes, crawl, 1)
    poll(jobs)
    nodes[0].end(f"{CRAWL}.0.1")
    nodes[0].running.append("other")
    assert poll(jobs) is None and poll(jobs, 0.5) is None
    assert not nodes[1].running
    assert poll(jobs, 1) is None
    assert nodes[1].running == [f"{CRAWL}.0.2"]


def test_a_node_that_is_silent_for_a_minute_has_lost_its_workers(nodes: list[Scrapyd], crawl: Crawl) -> None:
    jobs = workers(nodes, crawl, 1)
    poll(jobs)
    nodes[0].away = True
    for second in range(0, 60, 10):
        assert poll(jobs, second) is None
    assert sum(len(node.forms) for node in nodes) == 1
    poll(jobs, 61)
    poll(jobs, 63)
    assert nodes[1].running == [f"{CRAWL}.0.2"]


def test_workers_that_keep_ending_early_fail(nodes: list[Scrapyd], crawl: Crawl) -> None:
    jobs = workers(nodes, crawl, 1)
    ended, second = poll(jobs), 0.0
    while ended is None:
        for node in nodes:
            for job in list(node.running):
                node.end(job)
        second += 1
        ended = poll(jobs, second)
    assert ended == (IterationState.FAILED, "workers ended early 6 times: see the logs of the nodes")
    assert sum(len(node.forms) for node in nodes) == 1 + MOST_RESTARTS


@pytest.mark.parametrize("problem", ["away", "project"])
def test_nodes_that_take_no_worker_are_named(nodes: list[Scrapyd], crawl: Crawl, problem: str) -> None:
    for node in nodes:
        node.away = problem == "away"
    jobs = workers(nodes, crawl, 1, "shop" if problem == "away" else "other")
    for node in nodes:  # the other project has no jobs
        node.listjobs = node.daemonstatus  # type: ignore[method-assign]
    ended, second = poll(jobs), 0.0
    while ended is None:
        second += 1
        ended = poll(jobs, second)
    expected = (
        f"no node answers: {nodes[0].address}"
        if problem == "away"
        else f"{nodes[0].address}: project not found"
    )
    assert ended.state == IterationState.FAILED and f"6 times: {expected}" in ended.reason


def test_another_scheduler_takes_over_the_jobs(nodes: list[Scrapyd], crawl: Crawl) -> None:
    first = workers(nodes, crawl, 2)
    poll(first)
    nodes[1].end(f"{CRAWL}.1.1")
    poll(first)
    poll(first, 1)
    asyncio.run(first.abandon())
    before = [list(node.running) for node in nodes]
    again = workers(nodes, crawl, 2)
    assert poll(again) is None
    assert [node.running for node in nodes] == before
    asyncio.run(again.kill())
    assert [signal for node in nodes for signal in node.signals] == ["KILL", "KILL"]
    for node in nodes:
        node.running, node.cancelled = list(node.cancelled), []
    # of a job that was switched off while no scheduler ran
    stopping = workers(nodes, crawl, 2)
    asyncio.run(stopping.stop())
    assert poll(stopping) is None
    assert poll(stopping) == (IterationState.STOPPED, "shutdown")
    assert sorted(job for node in nodes for job in node.cancelled) == [f"{CRAWL}.0.1", f"{CRAWL}.1.2"]
