"""Decoding of Content-Encoding by the middleware."""

from __future__ import annotations

import asyncio
import gzip
import random
import time
import zlib
from typing import Any

import brotli
import pytest
from scrapy import Request
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import HtmlResponse, Response

from tests.cases import cases
from tests.downloads import Client, run
from tests.wire import Say, Wire
from webcrawl.crawler.access import ROBOTS
from webcrawl.crawler.fetch import exchange_of
from webcrawl.documents import content_coding
from webcrawl.documents.content_coding import zstd  # type: ignore[attr-defined]
from webcrawl.middlewares.decoding import DecodingMiddleware

PAGE = b"<title>Gr\xc3\xbc\xc3\x9fe</title>" + b"<p>words" * 1000


def answer(body: bytes, encoding: str = "gzip", **more: Any) -> Response:
    headers = {"Content-Type": "text/html; charset=utf-8", "Content-Encoding": encoding, "X-A": "b"}
    return HtmlResponse("http://h/", headers=headers, body=body, **more)


async def decoded(response: Response, request: Request | None = None, **settings: Any) -> Response:
    middleware = DecodingMiddleware.from_crawler(Client(**settings).crawler)
    found = middleware.process_response(request or Request("http://h/"), response)
    found = found if isinstance(found, Response) else await found
    assert isinstance(found, Response)
    return found


def test_body_is_decoded_and_the_header_removed() -> None:
    async def check() -> None:
        for body, encoding in (
            (gzip.compress(PAGE), "gzip"),
            (gzip.compress(PAGE), "X-GZIP , identity"),
            (brotli.compress(gzip.compress(PAGE)), "gzip, br"),
        ):
            response = await decoded(answer(body, encoding, status=203, flags=["a"], protocol="HTTP/1.1"))
            assert isinstance(response, HtmlResponse) and response.css("title::text").get() == "Grüße"
            assert (response.body, response.status, response.flags) == (PAGE, 203, ["a"])
            assert (response.protocol, response.headers["X-A"]) == ("HTTP/1.1", b"b")
            assert "Content-Encoding" not in response.headers

    run(check())


@cases(
    ("lines", "body"),
    [
        (b"Transfer-Encoding: gzip, chunked\r\n", gzip.compress(PAGE)),
        (
            b"Content-Encoding: deflate\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
            gzip.compress(zlib.compress(PAGE)),
        ),
    ],
)
def test_a_transfer_coding_nobody_asked_for_is_decoded(lines: bytes, body: bytes) -> None:
    async def check() -> None:
        chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        async with (
            Wire([Say([b"HTTP/1.1 200 OK\r\n" + lines + b"\r\n" + chunk])]) as wire,
            Client() as client,
        ):
            request = Request(wire.url())
            response = await decoded(await client.send(request), request)
            assert (response.body, response.flags) == (PAGE, [])
            exchange = exchange_of(request)
            # readers of the archive decode what its head names
            assert exchange is not None and b"Content-Encoding: gzip\r\n" in exchange.response_head

    run(check())


@cases("body", [b"<p>not encoded", b"\x1f\x8b\x08 nearly", PAGE])
@cases("encoding", ["gzip", "br", "utf-8", "gzip, unheard-of"])
def test_body_with_a_wrong_encoding_stays_unchanged(body: bytes, encoding: str) -> None:
    async def check() -> None:
        response = await decoded(answer(body, encoding))
        assert (response.body, response.flags) == (body, ["bad_coding"])
        assert "Content-Encoding" in response.headers

    run(check())


def test_incomplete_body_is_flagged() -> None:
    async def check() -> None:
        uncounted = Request("http://h/robots.txt", meta={ROBOTS: True})
        packed = gzip.compress(random.Random(1).randbytes(100_000))
        for cut in (packed[:-8], packed[:50_000]):
            assert (await decoded(answer(cut))).flags == ["unfinished"]
            for flag in ("dataloss", "timeout", "truncated", "download_stopped"):
                assert (await decoded(answer(cut, flags=[flag]), uncounted)).flags == [flag]
        assert (await decoded(answer(packed + b"\n"))).flags == []
        large = await decoded(answer(packed), uncounted, DOCUMENT_MAXSIZE={"text/html": 50_000})
        assert (len(large.body), large.flags) == (50_000, ["truncated"])

    run(check())


def test_body_with_a_wrong_checksum_is_kept_and_flagged() -> None:
    async def check() -> None:
        for large in (PAGE, PAGE * 100):
            lying = gzip.compress(large)[:-8] + bytes(8)
            response = await decoded(answer(lying))
            assert (response.body, response.flags) == (large, ["bad_checksum"])
            assert "Content-Encoding" not in response.headers
        response = await decoded(answer(lying, flags=["dataloss"]))
        assert response.flags == ["dataloss", "bad_checksum"]
        robots = Request("http://h/robots.txt", meta={ROBOTS: True})
        cut = await decoded(answer(lying), robots, DOCUMENT_MAXSIZE={"text/html": 50_000})
        assert (len(cut.body), cut.flags) == (50_000, ["truncated"])

    run(check())


def test_more_than_five_codings_are_not_decoded() -> None:
    async def check() -> None:
        body = PAGE
        for _ in range(5):
            body = gzip.compress(body)
        assert (await decoded(answer(body, "gzip" + ", gzip" * 4))).body == PAGE
        for many in (6, 1200):
            response = await decoded(answer(body, ", ".join(["gzip"] * many)))
            assert (response.body, response.flags) == (body, ["bad_coding"])

    run(check())


def test_empty_body_and_head_response_are_not_decoded() -> None:
    async def check() -> None:
        empty = answer(b"", "br")
        assert await decoded(empty) is empty
        head = answer(b"x")
        assert await decoded(head, Request("http://h/", method="HEAD")) is head

    run(check())


def test_body_that_decodes_beyond_the_size_limit_is_rejected() -> None:
    async def check() -> None:
        bomb = gzip.compress(bytes(1_000_000))
        with pytest.raises(IgnoreRequest, match="decodes to more than DOWNLOAD_MAXSIZE 1000"):
            await decoded(answer(bomb), DOWNLOAD_MAXSIZE=1000)
        request = Request("http://h/", meta={"download_maxsize": 999})
        with pytest.raises(IgnoreRequest, match="DOWNLOAD_MAXSIZE 999"):
            await decoded(answer(bomb), request)
        whole = await decoded(answer(bomb), DOWNLOAD_MAXSIZE=1_000_000)
        assert whole.body == bytes(1_000_000)

    run(check())


def test_other_tasks_run_while_a_small_body_becomes_a_large_one() -> None:
    async def check() -> None:
        steps = 0

        async def count() -> None:
            nonlocal steps
            while True:
                steps += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await decoded(answer(gzip.compress(PAGE)))
        assert not steps, "a small one is decoded at once"
        response = await decoded(answer(gzip.compress(bytes(3_000_000))))
        assert steps
        assert len(response.body) == 3_000_000
        counting.cancel()

    run(check())


def test_a_chain_of_codings_passes_on_a_bounded_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million members without content make no byte of the body."""
    monkeypatch.setattr(content_coding, "MAX_BETWEEN", 1_000_000)

    async def check() -> None:
        members = gzip.compress(b"") * 200_000 + gzip.compress(b"the end")
        response = await decoded(answer(gzip.compress(members), "gzip, gzip"))
        assert (response.body, response.flags) == (b"", ["unfinished"])

    run(check())


def test_middleware_can_be_disabled() -> None:
    with pytest.raises(NotConfigured):
        DecodingMiddleware.from_crawler(Client(COMPRESSION_ENABLED=False).crawler)


def test_chains_of_codings_are_decoded_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    running, most = 0, 0
    decode = DecodingMiddleware._written

    def watched(self: DecodingMiddleware, *arguments: Any) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        time.sleep(0.02)
        try:
            return decode(self, *arguments)
        finally:
            running -= 1

    monkeypatch.setattr(DecodingMiddleware, "_written", watched)

    async def check() -> None:
        middleware = DecodingMiddleware.from_crawler(Client().crawler)
        packed = answer(brotli.compress(gzip.compress(PAGE)), "gzip, br")
        responses = [middleware.process_response(Request("http://h/"), packed) for _ in range(4)]
        assert all(
            response.body == PAGE
            for response in await asyncio.gather(*responses)  # type: ignore[arg-type]
        )

    run(check())
    assert most == 1


def test_zstd_with_a_window_that_browsers_refuse_stays_encoded() -> None:
    window = {
        int(zstd.CompressionParameter.window_log): 27,
        int(zstd.CompressionParameter.compression_level): 19,
    }

    async def check() -> None:
        bomb = zstd.compress(bytes(30_000_000), options=window)
        response = await decoded(answer(bomb, "zstd"))
        assert (response.body, response.flags) == (bomb, ["bad_coding"])

    run(check())
