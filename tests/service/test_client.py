"""The clients, sync and async, on a running service."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.service.conftest import HOME, OTHER
from tests.service.served import Served
from tests.web import LocalWeb, Reply
from webcrawl.client import AsyncClient, Client, ServiceProblem, ServiceUnreachable
from webcrawl.client.server_sent import EventStreamReader, ServerSentEvent


@pytest.fixture
def client(service: Served) -> Iterator[Client]:
    with Client(service.url) as client:
        yield client


def test_a_page_is_fetched_and_read(client: Client, web: LocalWeb) -> None:
    page = web.put(OTHER, "/client", "<title>A page</title><p>Its text is short.</p>")
    short = web.put(HOME, "/client-short", Reply(status=302, headers={"Location": page}))
    result = client.fetch(short, parts=["metadata", "text"], wait=60)
    assert result.page and result.parts and not result.error
    assert (result.page.final_url, result.page.title) == (page, "A page")
    assert "Its text is short." in result.parts.text
    assert client.page(short) == result.page
    assert client.page(web.url(HOME, "/never")) is None
    stored = client.pages([page, short, web.url(HOME, "/never"), "no URL"])
    assert {url: record.final_url for url, record in stored.items()} == {page: page, short: page}


def test_more_pages_than_a_request_holds_are_fetched(client: Client, web: LocalWeb) -> None:
    urls = [web.put(HOME, f"/many/{number}", f"<title>{number}</title>") for number in range(310)]
    inner = "http://10.1.2.3/"
    results = client.fetch_all([*urls, inner], wait=100)
    titles = [result.page.title for url in urls if (result := results[url]).page]
    assert titles == [str(number) for number in range(310)]
    assert results[inner].error and results[inner].error.reason == "guard"


def test_a_page_that_is_not_there_in_time_is_pending(client: Client, web: LocalWeb) -> None:
    slow = web.put(OTHER, "/slow", Reply("<title>Slow</title>", delay=1.5))
    assert client.fetch(slow, wait=0.1).pending
    result = client.fetch(slow, wait=60, max_age="1h")
    assert result.page and result.page.title == "Slow"
    assert web.urls().count(slow) == 1


def test_events_are_followed_by_tag_and_continued(client: Client, service: Served, web: LocalWeb) -> None:
    urls = [web.put(HOME, f"/event/{number}", f"<title>{number}</title>") for number in range(3)]
    assert client.put(urls[:2], tag="autumn", meta={"n": 1}) == 2
    assert client.put(urls[2:], tag="winter") == 1
    events = list(islice(client.events(tag="autumn", after="0"), 2))
    assert {event.url for event in events} == set(urls[:2])
    assert all((event.tag, event.meta, event.status) == ("autumn", {"n": 1}, 200) for event in events)
    (later,) = islice(client.events(tag="autumn", after=events[0].id), 1)
    assert later.id == events[1].id
    (winter,) = islice(client.events(pattern="*/event/2", after="0"), 1)
    assert winter.tag == "winter" and winter.page and winter.page["title"] == "2"
    host = web.host(HOME).partition("//")[2].partition(":")[0]
    assert len(list(islice(client.events(host=host, after="0"), 3))) == 3


def test_urls_go_into_the_queue_of_a_crawl_once(client: Client) -> None:
    with pytest.raises(ServiceProblem) as caught:
        client.put(["http://127.0.1.9/"], crawl="nowhere")
    assert (caught.value.status, caught.value.kind) == (404, "not-found")
    assert "there is no crawl 'nowhere'" in str(caught.value) and caught.value.request_id


def test_wrong_crawls_are_named(client: Client) -> None:
    with pytest.raises(ServiceProblem, match="there is no crawl 'no where'"):
        client.crawl("no where")
    with pytest.raises(ServiceProblem, match="settings: 'UNKNOWN' is not one of"):
        client.start_crawl(["http://127.0.1.9/"], settings={"UNKNOWN": 1})


def test_the_async_client_does_the_same(service: Served, web: LocalWeb) -> None:
    urls = [web.put(HOME, f"/async/{number}", f"<title>{number}</title>") for number in range(3)]

    async def ask() -> None:
        async with AsyncClient(service.url) as client:
            results = await client.fetch_all(urls, wait=60)
            assert {result.page and result.page.title for result in results.values()} == {"0", "1", "2"}
            record = await client.page(urls[0], history=True)
            assert record and record.history == []
            assert await client.page(web.url(HOME, "/never")) is None
            assert len(await client.pages(urls)) == 3
            assert await client.put(urls[:1], tag="async") == 1
            events = client.events(tag="async", after="0")
            assert (await anext(events)).url == urls[0]
            await events.aclose()
            with pytest.raises(ServiceProblem, match="is not the ID of an event"):
                await anext(client.events(after="yesterday"))

    asyncio.run(asyncio.wait_for(ask(), 100))


def test_a_token_is_sent_and_a_wrong_one_is_an_error(
    start_service: Callable[..., Served], tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("operator op-0123456789abcdef\nreader re-0123456789abcdef\n")
    tokens.chmod(0o600)
    service = start_service("--tokens", str(tokens))
    with Client(service.url, token="re-0123456789abcdef") as client:
        assert client.page("http://127.0.1.1/") is None
        with pytest.raises(ServiceProblem, match="role"):
            client.fetch("http://127.0.1.1/")
    with Client(service.url, token="wrong") as client, pytest.raises(ServiceProblem) as caught:
        client.page("http://127.0.1.1/")
    assert caught.value.status == 401


def test_a_service_that_is_not_there_is_named() -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(ServiceUnreachable, match="127.0.0.1:9"):
        client.page("http://127.0.1.1/")


class _Busy(BaseHTTPRequestHandler):
    answers: ClassVar[list[tuple[int, str, bytes]]] = []
    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Last-Event-ID", ""))
        status, kind, content = self.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if status == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def busy() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Busy)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    _Busy.answers.clear()
    _Busy.seen.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_busy_service_is_asked_again(busy: str) -> None:
    busy_answer = (429, "text/plain", b"not of the API")
    _Busy.answers += [busy_answer, busy_answer, (502, "text/html", b"<h1>Bad gateway</h1>")]
    with Client(busy) as client, pytest.raises(ServiceProblem) as caught:
        client.page("http://127.0.1.1/")
    assert (caught.value.status, caught.value.kind, len(_Busy.seen)) == (502, "", 3)


def test_events_continue_after_a_lost_connection_without_a_gap(busy: str) -> None:
    data = b'data: {"url": "http://a/", "final_url": "http://a/"}\n\n'
    kind = "text/event-stream"
    _Busy.answers += [
        # the connection ends inside the second event
        (200, kind, b"retry: 1\n\nid: 1-0\nevent: page\n" + data + b"id: 2-0\nevent: page\n"),
        (200, kind, b": comment\nid: 2-0\nevent: page\n" + data),
        (
            401,
            "application/problem+json",
            b'{"type": "/#problem-unknown-token", "title": "No.", "status": 401}',
        ),
    ]
    began = time.monotonic()
    with Client(busy) as client:
        events = client.events()
        assert [next(events).id, next(events).id] == ["1-0", "2-0"]
        with pytest.raises(ServiceProblem, match="unknown-token"):
            next(events)
    assert _Busy.seen == ["", "1-0", "2-0"]
    assert time.monotonic() - began < 60


def test_lines_of_a_stream_become_events() -> None:
    reader = EventStreamReader("0")
    lines = ["data: a", "data:b", "", ":comment", "id: 5", "", "event: page", "data", "", "event: x", ""]
    events = [event for line in lines if (event := reader.feed(line))]
    assert events == [ServerSentEvent("message", "a\nb", "0"), ServerSentEvent("page", "", "5")]
    assert reader.last_id == "5"
