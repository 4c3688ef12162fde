"""Pages are fetched on request, once for all who ask, or answered from what is stored."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import httpx
from redis import Redis

from tests.crawls import until
from tests.metadata import row
from tests.service.conftest import HOME, OTHER, PRIVATE
from tests.service.served import Served
from tests.web import LocalWeb, Reply
from webcrawl.stores.metadata import Metadata

STORY = "The keeper of the harbour reads each letter twice before the boat leaves. " * 12


def test_a_page_is_fetched_through_its_redirects_and_readable(service: Served, web: LocalWeb) -> None:
    page = web.put(OTHER, "/page", f"<title>A page</title><a href='/next'>next</a><p>{STORY}</p>")
    short = web.put(HOME, "/short", Reply(status=302, headers={"Location": page}))
    answer = service.fetch(short, parts=["metadata", "text", "markdown", "html", "links", "record"])
    assert answer.status_code == 200, answer.text
    (result,) = answer.json()["results"]
    assert (result["url"], result["page"]["final_url"], result["page"]["title"]) == (short, page, "A page")
    assert result["page"]["chain"] == [{"url": short, "status": 302}, {"url": page, "status": 200}]
    parts = result["parts"]
    assert STORY.strip() in parts["text"] and STORY.strip() in parts["markdown"]
    assert parts["html"].startswith("<title>A page") and parts["links"] == [web.url(OTHER, "/next")]
    assert gzip.decompress(base64.b64decode(parts["record"])).startswith(b"WARC/1")

    stored = service.page(short).json()
    assert stored == result["page"]
    again = service.fetch(short)
    assert again.json()["id"] == "" and again.json()["results"][0]["stored"]
    assert web.urls().count(page) == 1


def test_a_page_that_is_too_old_is_fetched_again(service: Served, web: LocalWeb) -> None:
    page = web.put(HOME, "/aging", "<title>First</title>")
    assert service.fetch(page).json()["results"][0]["page"]["title"] == "First"
    web.put(HOME, "/aging", "<title>Second</title>")
    assert service.fetch(page).json()["results"][0]["page"]["title"] == "First"
    assert service.fetch(page, max_age=0).json()["results"][0]["page"]["title"] == "Second"
    history = service.page(page, history="true").json()["history"]
    assert len(history) == 1 and history[0]["status"] == 200


def test_each_url_has_its_own_result(service: Served, web: LocalWeb) -> None:
    web.put(
        PRIVATE, "/robots.txt", Reply("User-agent: *\nDisallow: /", headers={"Content-Type": "text/plain"})
    )
    good, bad = web.put(HOME, "/good", "<title>Good</title>"), web.url(HOME, "/missing")
    private, inner = web.url(PRIVATE, "/secret"), "http://10.1.2.3/"
    answer = service.fetch(good, private, inner, "mailto:a@example.org", bad)
    assert answer.status_code == 200
    results = {result["url"]: result for result in answer.json()["results"]}
    assert results[good]["page"]["status"] == 200
    assert results[bad]["page"]["status"] == 404
    reasons = {url: result["error"]["reason"] for url, result in results.items() if "error" in result}
    assert reasons == {private: "robots", inner: "guard", "mailto:a@example.org": "invalid"}


def test_results_are_in_the_order_of_the_urls_with_those_that_come_twice(
    service: Served, web: LocalWeb
) -> None:
    twice, other = (
        web.put(HOME, "/twice", "<title>Twice</title>"),
        web.put(HOME, "/other", "<title>O</title>"),
    )
    wanted = [twice, "mailto:a@example.org", other, twice, "mailto:a@example.org"]
    for _ in range(2):
        assert [result["url"] for result in service.fetch(*wanted).json()["results"]] == wanted
    assert web.urls().count(twice) == 1


def test_a_page_that_redirects_to_itself_is_a_circle(service: Served, web: LocalWeb) -> None:
    own = web.put(HOME, "/own", Reply(status=302, headers={"Location": "/own"}))
    gate = web.put(HOME, "/gate", Reply(status=302, headers={"Location": "/gate", "Set-Cookie": "a=1"}))
    results = service.fetch(own, gate).json()["results"]
    assert [result["error"]["reason"] for result in results] == ["redirects", "redirects"]
    assert web.urls().count(own) == 1


def test_an_answer_that_takes_long_is_asked_for_again(service: Served, web: LocalWeb) -> None:
    slow = web.put(HOME, "/slow", Reply("<title>Slow</title>", delay=2))
    answer = service.fetch(slow, wait=0)
    assert answer.status_code == 202 and answer.json()["results"] == [{"url": slow, "pending": True}]
    address = answer.headers["location"]
    assert address == f"/v1/requests/{answer.json()['id']}"
    later = service.client.get(address, params={"wait": 60})
    assert later.status_code == 200 and later.json()["results"][0]["page"]["title"] == "Slow"
    assert service.client.get(address).json() == later.json()


def test_a_url_that_many_ask_for_is_fetched_once(service: Served, web: LocalWeb) -> None:
    wanted = web.put(HOME, "/wanted", Reply("<title>Wanted</title>", delay=1))
    with ThreadPoolExecutor(8) as pool:
        answers: list[httpx.Response] = list(pool.map(lambda _: service.fetch(wanted), range(8)))
    assert [answer.json()["results"][0]["page"]["title"] for answer in answers] == ["Wanted"] * 8
    assert web.urls().count(wanted) == 1


def test_more_urls_of_a_host_than_may_wait_are_busy(service: Served, web: LocalWeb) -> None:
    urls = [web.url(OTHER, f"/many/{number}") for number in range(210)]
    results = service.fetch(*urls, wait=0).json()["results"]
    busy = [result["error"] for result in results if "error" in result]
    assert [error["reason"] for error in busy] == ["busy"] * 10 and busy[0]["retry_after"] > 0


def test_a_client_that_leaves_costs_only_its_request(service: Served, web: LocalWeb) -> None:
    late = web.put(HOME, "/late", Reply("<title>Late</title>", delay=1))
    with contextlib.suppress(httpx.TimeoutException):
        service.client.post("/v1/pages", json={"url": late, "wait": 60}, timeout=0.3)
    assert service.fetch(late).json()["results"][0]["page"]["title"] == "Late"
    assert web.urls().count(late) == 1


def test_another_service_of_the_engine_shows_a_request(
    start_service: Callable[..., Served], redis_url: str, valkey: Redis, tmp_path: Path
) -> None:
    uri = f"sqlite:///{tmp_path}/shared.db"
    first, second = (start_service(REDIS_URL=redis_url, METADATA_URI=uri) for _ in range(2))
    wanted = "http://example.org/"
    answer = first.fetch(wanted, "nonsense", wait=0)
    assert answer.status_code == 202
    (message,) = (fields for _, fields in valkey.xrange("live:urls"))
    assert (message[b"url"], message[b"id"]) == (wanted.encode(), answer.json()["id"].encode())
    assert second.client.get(answer.headers["location"]).json() == answer.json()
    # the event of a worker settles the request, and the other service shows it
    event = {"kind": "page", "ids": [answer.json()["id"]], "url": wanted, "error": "robots", "reason": "no"}
    valkey.xadd("wc:{c:live}:pages", {"page": json.dumps(event)})
    settled = second.client.get(answer.headers["location"], params={"wait": 30})
    assert settled.status_code == 200
    assert [result["error"]["reason"] for result in settled.json()["results"]] == ["robots", "invalid"]

    # a service that ends before the page comes: what is stored since is shown
    lost = first.fetch("http://example.net/", wait=0)
    first.stop()
    with Metadata(uri) as metadata:
        metadata.upsert([row("http://example.net/", status=200, fetched_at=datetime.now(UTC))])
    later = second.client.get(lost.headers["location"])
    assert later.status_code == 200 and later.json()["results"][0]["page"]["status"] == 200
    assert 0 < valkey.ttl(f"wc:requests:{answer.json()['id']}") <= 3_600


def test_a_full_lane_is_told(start_service: Callable[..., Served], redis_url: str, valkey: Redis) -> None:
    service = start_service("--fetches", "20", REDIS_URL=redis_url)
    with valkey.pipeline() as pipeline:
        for _ in range(5_000):
            pipeline.xadd("live:urls", {"url": "http://example.org/"})
        pipeline.execute()
    full = service.fetch("http://example.org/", wait=0)
    assert full.status_code == 429 and int(full.headers["retry-after"]) >= 1
    assert "live lane" in full.json()["detail"]
    # what the lane refuses costs nothing of the quota of two URLs at once
    urls = [f"http://example.org/{number}" for number in range(2)]
    assert "live lane" in service.fetch(*urls, wait=0).json()["detail"]
    valkey.delete("live:urls")
    until(lambda: service.fetch(*urls, wait=0).status_code == 202, service.process, 30)
    assert "quota" in service.fetch(*urls, wait=0).json()["detail"]
    # the quota is that of all services, for any way into the lane
    other = start_service("--fetches", "20", REDIS_URL=redis_url)
    refused = other.client.post("/v1/urls", json={"urls": urls})
    assert refused.status_code == 429 and "quota" in refused.json()["detail"]
    assert 300 <= int(refused.headers["retry-after"]) <= 360
