"""Who may use the service: tokens, roles, hosts, other sites; and what clients can send."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.service.served import Served

OPERATOR, READER = "operator-token-0123456789", "reader-token-0123456789"
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def guarded(start_service: Callable[..., Served], tmp_path: Path, redis_url: str) -> Served:
    """A service with tokens, which lets each have 100 pages fetched in an hour."""
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text(f"operator {OPERATOR}\nreader {READER}\n")
    return start_service("--tokens", str(tokens), "--fetches", "100", REDIS_URL=redis_url)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_tokens_and_roles_decide_what_is_answered(guarded: Served) -> None:
    client, body = guarded.client, {"url": "http://example.org/", "wait": 0}
    assert client.get("/").status_code == client.get("/openapi.json").status_code == 200
    refused = client.get("/v1/pages/x")
    assert refused.status_code == 401 and "Bearer" in refused.headers["www-authenticate"]
    assert client.get("/v1/pages/http:%2F%2Fa.org", headers=bearer(READER)).status_code == 404
    assert client.post("/v1/pages", json=body, headers=bearer(READER)).status_code == 403
    for path in ("/v1/crawls", "/v1/jobs"):
        assert client.get(path, headers=bearer(READER)).status_code == 200
    for path in ("/v1/crawls", "/v1/crawls/broad:stop", "/v1/jobs/news:start"):
        assert client.post(path, json={}, headers=bearer(READER)).status_code == 403
    answer = client.post("/v1/pages", json=body, headers=bearer(OPERATOR))
    assert answer.status_code == 202
    address = answer.headers["location"]
    assert client.get(address, headers=bearer(OPERATOR)).status_code == 202
    assert client.get(address, headers=bearer(READER)).status_code == 404

    # the quota allows a tenth of an hour's URLs at once
    urls = [f"http://example.org/{number}" for number in range(10)]
    limited = client.post("/v1/pages", json={"urls": urls, "wait": 0}, headers=bearer(OPERATOR))
    assert limited.status_code == 429 and int(limited.headers["retry-after"]) >= 1
    assert limited.json()["type"] == "/#problem-too-many-requests"


def test_guesses_of_tokens_are_limited(guarded: Served) -> None:
    began, statuses = time.monotonic(), []
    for number in range(60):  # a further one is free every 6 seconds
        statuses.append(guarded.client.get("/v1/pages/x", headers=bearer(f"wrong{number}")).status_code)
        if statuses[-1] == 429:
            break
    assert statuses[0] == 401 and statuses[-1] == 429
    assert time.monotonic() - began > 1


def test_other_sites_and_names_are_refused(service: Served) -> None:
    client, body = service.client, {"urls": ["http://example.org/"]}
    assert client.get("/v1/pages/x", headers={"Host": "evil.example"}).status_code == 421
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert client.post("/v1/pages:read", json=body, headers=headers).status_code == 403
    form = client.post("/v1/pages:read", content=json.dumps(body), headers={"Content-Type": "text/plain"})
    assert form.status_code == 415
    packed = client.post("/v1/pages:read", json=body, headers={"Content-Encoding": "gzip"})
    assert packed.status_code == 415
    assert packed.json()["detail"] == "Content-Encoding 'gzip': send the body uncompressed"
    assert (
        client.post("/v1/pages:read", json=body, headers={"Content-Encoding": "identity"}).status_code == 200
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"urls": []}',
        b'{"urls": ["http://a.org/"], "more": 1}',
        b'{"urls": "http://a.org/"}',
        b'{"urls": ["' + b"a" * 9_000 + b'"]}',
        json.dumps({"urls": ["http://a.org/"] * 301}).encode(),
    ],
    ids=["empty", "cut", "bytes", "deep", "none", "unknown", "text", "long", "many"],
)
def test_wrong_bodies_are_refused(service: Served, content: bytes) -> None:
    answer = service.client.post("/v1/pages:read", content=content, headers=JSON)
    assert answer.status_code == 400 and answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"url": "http://a.org/", "urls": ["http://b.org/"]},
        {"url": "http://a.org/", "max_age": "soon"},
        {"url": "http://a.org/", "max_age": -1},
        {"url": "http://a.org/", "wait": 1e9},
        {"url": "http://a.org/", "parts": ["everything"]},
    ],
)
def test_wrong_requests_for_pages_are_refused(service: Served, body: dict[str, object]) -> None:
    answer = service.client.post("/v1/pages", json=body)
    assert answer.status_code == 400 and answer.json()["detail"].startswith("body: ")


def test_half_of_a_surrogate_pair_is_named(service: Served) -> None:
    details = {}
    for escape in (r"\ud800", r"\uDC00\u0041", r"\ud83d\ude00\uD800", r"\\ud800", r"\ud83d\ude00"):
        content = b'{"urls": ["' + escape.encode() + b'"], "wait": 0}'
        answer = service.client.post("/v1/pages", content=content, headers=JSON)
        details[escape] = answer.json().get("detail", answer.status_code)
    half = "is half of a surrogate pair, and no character"
    assert details == {
        r"\ud800": rf"body: \ud800 (byte 11) {half}",
        r"\uDC00\u0041": rf"body: \uDC00 (byte 11) {half}",
        r"\ud83d\ude00\uD800": rf"body: \uD800 (byte 23) {half}",
        r"\\ud800": 200,
        r"\ud83d\ude00": 200,
    }


@pytest.mark.parametrize(
    "url",
    [
        "x",
        "http://",
        "http://[::1",
        "\x00",
        "javascript:1",
        "http://a b/",
        "%ff%fe",
        "http://" + "a" * 300 + "/",
    ],
)
def test_hostile_urls_are_refused_or_unknown(service: Served, url: str) -> None:
    assert service.page(url).status_code in (400, 404)
    assert service.client.post("/v1/pages:read", json={"urls": [url]}).json()["results"][0]["page"] is None


def test_a_request_id_of_the_client_is_kept_if_it_is_plain(service: Served) -> None:
    kept = service.client.get("/v1/pages/x", headers={"X-Request-Id": "my-id.1"})
    assert kept.headers["x-request-id"] == kept.json()["request_id"] == "my-id.1"
    new = service.client.get("/v1/pages/x", headers={"X-Request-Id": "a b<c>"})
    assert new.headers["x-request-id"] == new.json()["request_id"] != "a b<c>"


def test_bodies_and_heads_are_bounded(service: Served) -> None:
    long = service.client.post("/v1/pages:read", content=b" " * 10_000_001, headers=JSON)
    assert long.status_code == 413
    assert raw(service, b"GET / HTTP/1.1\r\nA: " + b"a" * 100_000).startswith(b"HTTP/1.1 400")
    assert raw(service, b"GET \xff HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400")
    unannounced = b"POST /v1/pages:read HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    assert raw(service, unannounced + b"Transfer-Encoding: chunked\r\n\r\n" + 11 * chunk).startswith(
        b"HTTP/1.1 413"
    )


def raw(service: Served, request: bytes) -> bytes:
    """Sends bytes as far as the service takes them; returns the beginning of the answer."""
    host, _, port = service.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        with contextlib.suppress(ConnectionError, TimeoutError):
            connection.sendall(request)
        try:
            return connection.recv(1_000)
        except ConnectionError:
            return b""
