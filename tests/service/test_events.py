"""Events of finished pages are sent to readers, from the position that they name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis

from tests.cases import cases
from tests.crawls import crawl_hosts
from tests.service.served import Served
from tests.web import LocalWeb
from webcrawl.service.event_feed import is_position
from webcrawl.service.events import MOST_OF_CALLER

LIVE, BROAD = "wc:{c:live}:pages", "wc:{c:broad}:pages"


class Stream:
    """The stream of a crawl, written by hand, and readers of a service on it."""

    def __init__(self, service: Served, valkey: Redis) -> None:
        self.service = service
        self._valkey = valkey

    def add(self, number: int, key: str = LIVE, **fields: Any) -> None:
        if key == LIVE:
            fields = {
                "kind": "page",
                "url": f"http://a.example/{number}",
                "final_url": f"http://b.example/{number}",
            } | fields
        self._valkey.xadd(key, {"page": json.dumps(fields)}, id=f"{number}-0")

    def drop_before(self, number: int) -> None:
        self._valkey.xtrim(LIVE, minid=f"{number}-0", approximate=False)

    @contextmanager
    def reading(self, after: str = "0", **params: str) -> Iterator[Iterator[tuple[str, str, Any]]]:
        """Yields (id, event, data) of what is sent."""
        headers = {"Last-Event-ID": after} if after else {}
        with self.service.client.stream("GET", "/v1/events", params=params, headers=headers) as response:
            assert response.status_code == 200, response.read()
            assert response.headers["content-type"].startswith("text/event-stream")
            yield self._events(response)

    def read(self, number: int, after: str = "0", **params: str) -> list[tuple[str, str, Any]]:
        """Reads some events."""
        with self.reading(after, **params) as events:
            return [next(events) for _ in range(number)]

    def _events(self, response: httpx.Response) -> Iterator[tuple[str, str, Any]]:
        fields: dict[str, str] = {}
        for line in response.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
                fields = {}


@pytest.fixture
def stream(start_service: Callable[..., Served], redis_url: str, valkey: Redis) -> Stream:
    return Stream(start_service(REDIS_URL=redis_url), valkey)


def test_events_are_filtered_by_tag_host_and_pattern(stream: Stream) -> None:
    stream.add(1, tag="t")
    stream.add(2, url="https://User@C.example:8080/x?y", tag="u")
    stream.add(3, tag="t")
    assert [event[0] for event in stream.read(2, tag="t")] == ["1-0", "3-0"]
    assert [event[0] for event in stream.read(1, host="C.Example")] == ["2-0"]
    assert [event[0] for event in stream.read(3, host="b.example")] == ["1-0", "2-0", "3-0"]
    assert [event[0] for event in stream.read(1, pattern="http://?.example/3")] == ["3-0"]
    assert [event[0] for event in stream.read(1, pattern="*/1")] == ["1-0"]


def test_a_reader_continues_and_is_told_what_it_missed(stream: Stream) -> None:
    for number in range(1, 6):
        stream.add(number)
    assert [event[0] for event in stream.read(3, after="2-0")] == ["3-0", "4-0", "5-0"]
    stream.drop_before(4)
    missed, first, _ = stream.read(3, after="1-0")
    assert missed[1] == "missed" and (first[0], first[1]) == ("4-0", "page")
    assert stream.read(1, after="0")[0][0] == "4-0"


def test_new_events_come_to_all_readers(stream: Stream) -> None:
    stream.add(1)
    with ExitStack() as stack:
        readers = [stack.enter_context(stream.reading(after)) for after in ("", "", "0")]
        assert next(readers[2])[0] == "1-0"
        # readers without a position begin now; each is connected once it has got its first event
        numbers = iter(range(2, 200))
        for reader in readers:
            stream.add(next(numbers))
            assert next(reader)[1] == "page"


def test_rows_of_other_crawls_become_events(stream: Stream) -> None:
    stream.add(1, BROAD, url="http://a.example/", final_url="http://a.example/b", status=200, title="A")
    stream.add(2, BROAD, url="http://a.example/c", final_url="http://a.example/c", error="TimeoutError: slow")
    (_, _, page), (_, _, failed) = stream.read(2, crawl="broad")
    assert (page["status"], page["error"], page["page"]["title"]) == (200, "", "A")
    assert (failed["status"], failed["error"], failed["reason"]) == (None, "dead", "TimeoutError: slow")


def test_wrong_questions_are_refused(stream: Stream) -> None:
    client = stream.service.client
    for params in (
        {"after": "yesterday"},
        {"after": "1"},
        {"tag": "t" * 65},
        {"colour": "red"},
        {"crawl": "a b"},
    ):
        answer = client.get("/v1/events", params=params)
        assert answer.status_code == 400, params
        assert answer.headers["content-type"] == "application/problem+json"
    with ExitStack() as stack:
        stream.add(1)
        # a stream is closed once nobody holds it
        readers = [stack.enter_context(stream.reading()) for _ in range(MOST_OF_CALLER)]
        assert {next(reader)[0] for reader in readers} == {"1-0"}
        refused = client.get("/v1/events")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")


@cases(
    ("text", "valid"),
    [
        ("1-0", True),
        ("0-0", True),
        ("1", False),
        ("-", False),
        ("1-", False),
        ("1-0-0", False),
        ("٣-1", False),
    ],
)
def test_ids_of_events_are_known(text: str, valid: bool) -> None:
    assert is_position(text) is valid


def test_a_url_is_queued_in_a_crawl_that_has_not_seen_it(
    start_service: Callable[..., Served], redis_url: str, local_web: Callable[..., LocalWeb], tmp_path: Path
) -> None:
    web = local_web("127.0.1.1")
    web.put("127.0.1.1", "/", "<title>Home</title>")
    seed, more = web.url("127.0.1.1", "/"), web.url("127.0.1.1", "/more")
    crawl_hosts([seed], tmp_path, REDIS_URL=redis_url)
    client = start_service(REDIS_URL=redis_url).client
    wanted = {"crawl": "broad", "urls": [seed, more, f"{more}#part"]}
    answer = client.post("/v1/urls", json=wanted | {"level": 1})
    assert (answer.status_code, answer.json()) == (202, {"queued": 1})
    assert client.post("/v1/urls", json=wanted).json() == {"queued": 0}
    wrong_values = ({"tag": "t"}, {"max_age": 5}, {"level": 8}, {"urls": []}, {"urls": ["mailto:a@b"]})
    wrong_ends = ({"crawl": "broad\n"}, {"crawl": "live", "max_age": "5m\n"})
    too_long = {"crawl": "live", "meta": {"text": "x" * 300_000}}
    for wrong in (*wrong_values, *wrong_ends, too_long):
        answer = client.post("/v1/urls", json=wanted | wrong)
        assert answer.status_code == 400, wrong
    web.put("127.0.1.1", "/more", "<title>More</title>")
    assert crawl_hosts([seed], tmp_path, REDIS_URL=redis_url).summary["pages"] == 2
    assert web.urls().count(more) == 1
