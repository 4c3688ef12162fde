"""Crawls are started, steered and listed over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.service.conftest import HOME, OTHER
from tests.service.served import START_SECONDS, Served
from tests.web import LocalWeb
from webcrawl.client import Client, ServiceProblem, SteeredCrawl

CRAWL = "of-the-api"


@pytest.fixture
def long_crawl(service: Served, web: LocalWeb) -> Iterator[dict[str, Any]]:
    """What starts a crawl that lasts for minutes; it is stopped after the test."""
    url = web.put(OTHER, "/long", "".join(f'<a href="/long/{number}">{number}</a>' for number in range(200)))
    yield {"urls": [url], "crawl": CRAWL, "scope": "host", "settings": {"DOWNLOAD_DELAY": 1}}
    if service.client.post(f"/v1/crawls/{CRAWL}:stop").status_code == 200:
        wait_until(lambda: state(service)["figures"]["workers"] == 0)


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def state(service: Served) -> dict[str, Any]:
    answer = service.client.get(f"/v1/crawls/{CRAWL}")
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def listed(service: Served) -> dict[str, Any]:
    crawls = service.client.get("/v1/crawls").json()["crawls"]
    return {crawl["crawl"]: crawl for crawl in crawls}[CRAWL]


def test_a_crawl_is_started_paused_resumed_and_stopped(service: Served, long_crawl: dict[str, Any]) -> None:
    client = service.client
    started = client.post("/v1/crawls", json=long_crawl | {"wait": 60})
    assert started.status_code == 201, started.text
    assert started.headers["location"] == f"/v1/crawls/{CRAWL}" and started.json()["state"] == "running"
    wait_until(lambda: state(service)["figures"]["pages"] and state(service)["busiest_hosts"])
    running = listed(service)
    assert running["state"] == "running" and running["queued"] and "started" in running

    with Client(service.url) as steering:
        with pytest.raises(ServiceProblem, match="is running") as caught:
            steering.start_crawl(long_crawl["urls"], crawl=CRAWL, settings=long_crawl["settings"])
        assert caught.value.kind == "conflict"
        for change, expected in ((steering.pause_crawl, "paused"), (steering.resume_crawl, "running")):
            assert change(CRAWL) == change(CRAWL) == SteeredCrawl(CRAWL, expected, 1)
            assert {crawl.crawl: crawl.state for crawl in steering.crawls()}[CRAWL] == expected
            assert steering.crawl(CRAWL).state == expected
        assert steering.stop_crawl(CRAWL).workers == 1
    wait_until(lambda: state(service)["state"] == "stopped")
    assert client.post(f"/v1/crawls/{CRAWL}:stop").json() == {
        "crawl": CRAWL,
        "state": "stopped",
        "workers": 0,
    }
    wait_until(lambda: "how" in listed(service))
    assert listed(service)["ended"] > listed(service)["started"]


def test_a_crawl_that_begins_later_is_starting_until_then(service: Served, web: LocalWeb) -> None:
    client, path = service.client, "/v1/crawls/later"
    started = client.post(
        "/v1/crawls", json={"urls": [web.put(HOME, "/later", "a page")], "crawl": "later", "wait": 0}
    )
    assert started.status_code == 202 and started.json() == {"crawl": "later", "state": "starting"}
    assert started.headers["location"] == path and client.get(path).status_code == 200
    wait_until(lambda: client.get(path).raise_for_status().json()["state"] == "finished")
    assert client.get(path).json()["figures"]["pages"] == 1


def test_why_a_crawl_cannot_be_started_is_told(service: Served) -> None:
    logs = service.process.data_dir / "data" / "logs"
    wanted = {"urls": [f"http://{HOME}/"], "crawl": "no-output"}
    (logs / "no-output.out").mkdir(parents=True)
    refused = service.client.post("/v1/crawls", json=wanted)
    assert refused.status_code == 409
    assert refused.json()["detail"] == "the crawl cannot be started: Is a directory"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({}, "urls: missing"),
        ({"urls": ["file:///etc/passwd"]}, "'file:///etc/passwd' is not a URL of"),
        ({"urls": ["@/etc/passwd"]}, "'@/etc/passwd' is not a URL of"),
        ({"urls": ["http://a.org/\nhttp://b.org/"]}, "urls: 'http://a.org/"),
        ({"urls": ["# comment"]}, "urls: '# comment' is not a URL"),
        ({"urls": [f"http://a.org/{'a' * 8_000}"] * 9}, "urls: there are more than 65,536 characters"),
        ({"spider": "none"}, "spider: "),
        ({"crawl": "../other"}, "crawl: "),
        ({"scope": "/etc"}, "scope: "),
        ({"settings": {"CRAWL_MAX_PAGES": "many"}}, "CRAWL_MAX_PAGES: "),
        ({"settings": {"CRAWL_MAX_PAGES": -1}}, "CRAWL_MAX_PAGES"),
        ({"settings": {"DATA_DIR": "/etc"}}, "settings: 'DATA_DIR' is not one of CRAWL_MAX_PAGES"),
        ({"arguments": {}}, "unknown field `arguments`"),
        ({"wait": 1e9}, "$.wait"),
    ],
)
def test_what_is_wrong_with_a_new_crawl_is_named(service: Served, wrong: dict[str, Any], named: str) -> None:
    right = {"urls": [f"http://{HOME}/"], "crawl": "wrong", "wait": 0} if wrong else {"wait": 0}
    refused = service.client.post("/v1/crawls", json=right | wrong)
    assert refused.status_code == 400 and named in refused.json()["detail"], refused.text
    assert service.client.get("/v1/crawls/wrong").status_code == 404


@pytest.mark.parametrize("name", ["nowhere", "%00", "..", "a b", "x" * 300])
def test_a_crawl_that_does_not_exist_is_named(service: Served, name: str) -> None:
    answers = [service.client.get(f"/v1/crawls/{name}")] if name != ".." else []
    answers += [service.client.post(f"/v1/crawls/{name}:{verb}") for verb in ("pause", "resume", "stop")]
    assert {answer.status_code for answer in answers} == {404}
    assert all("there is no" in answer.json()["detail"] for answer in answers)
