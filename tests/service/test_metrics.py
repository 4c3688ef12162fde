"""A service counts what it answers and refuses, and traces it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from redis import Redis

from tests.collector import Collector
from tests.scraped import Scraped, check_by_promtool
from tests.service.served import Served

READER, OPERATOR = "reader-of-the-service", "operator-of-the-service"
PAGE = "http://example.org/"
NAME = "webcrawl_service"


def test_answers_refusals_and_stages_are_counted_by_token(
    start_service: Callable[..., Served], redis_url: str, valkey: Redis, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text(f"reader {READER}\noperator {OPERATOR}\n")
    service = start_service("--tokens", str(tokens), "--fetches", "10", REDIS_URL=redis_url)

    def ask(token: str, method: str, path: str, **more: object) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token}"}
        return service.client.request(method, path, headers=headers, **more)  # type: ignore[arg-type]

    assert service.client.get("/metrics").status_code == 401
    assert ask(OPERATOR, "POST", "/v1/pages", json={"url": PAGE, "wait": 0}).status_code == 202
    assert ask(OPERATOR, "POST", "/v1/pages", json={"url": PAGE + "more", "wait": 0}).status_code == 429
    assert ask(READER, "POST", "/v1/pages", json={"url": PAGE, "wait": 0}).status_code == 403
    assert ask(READER, "POST", "/v1/pages:read", json={"urls": [PAGE]}).status_code == 200
    assert ask(READER, "GET", "/nothing").status_code == 404
    answer = ask(READER, "GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    now = Scraped(answer.text)
    check_by_promtool(answer.text)
    assert now.crawls == set()
    # by name, which is no token
    operator, reader = (hashlib.sha256(token.encode()).hexdigest()[:8] for token in (OPERATOR, READER))
    assert READER not in answer.text and OPERATOR not in answer.text
    requests = {key[1:]: value for key, value in now.values.items() if key[0] == f"{NAME}_requests_total"}
    assert requests == {
        ("other", "401"): 1,
        ("fetchPages", "202"): 1,
        ("fetchPages", "429"): 1,
        ("fetchPages", "403"): 1,
        ("readPages", "200"): 1,
        ("other", "404"): 1,
    }
    refusals = {key[1:]: value for key, value in now.values.items() if key[0] == f"{NAME}_refusals_total"}
    assert refusals == {
        ("unknown-token", ""): 1,
        ("quota", operator): 1,
        ("role-missing", reader): 1,
    }
    assert now[f"{NAME}_request_seconds_count", "fetchPages"] == 3
    assert now[f"{NAME}_stage_seconds_count", "queue"] == 1
    # each request for pages, and the answer of the first
    assert now[f"{NAME}_stage_seconds_count", "read"] == 5
    assert now[f"{NAME}_queued_urls_total", operator] == now[f"{NAME}_lane_messages"] == 1
    assert now[f"{NAME}_waiting", "fetch"] == 1
    assert (
        "# EOF"
        in service.client.get(
            "/metrics",
            headers={
                "Authorization": f"Bearer {READER}",
                "Accept": "application/openmetrics-text; version=1.0.0",
            },
        ).text
    )


def test_requests_are_traced_with_their_stages(
    start_service: Callable[..., Served], redis_url: str, valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, trace = "00f067aa0ba902b7", "4bf92f3577b34da6a3ce929d0e0e4736"
    with Collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        service = start_service(REDIS_URL=redis_url, TRACES=True)
        headers = {"traceparent": f"00-{trace}-{parent}-01", "X-Request-Id": "traced"}
        service.client.post("/v1/pages", json={"url": PAGE, "wait": 0}, headers=headers)
        service.client.get("/nothing")
        service.stop()
        mine = {span.name: span for span in collector.spans if span.trace.hex() == trace}
        (other,) = [span for span in collector.spans if span.trace.hex() != trace]
    request = mine.pop("fetchPages")
    assert request.parent.hex() == parent
    assert request.attributes == {
        "http.request.method": "POST",
        "http.response.status_code": 202,
        "webcrawl.request_id": "traced",
    }
    assert {*mine} == {"read", "queue", "wait"} and {span.parent for span in mine.values()} == {request.id}
    assert all(request.began <= span.began <= span.ended <= request.ended for span in mine.values())
    assert (other.name, other.attributes["http.response.status_code"]) == ("other", 404)
