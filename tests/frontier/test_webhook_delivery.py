"""Events that wait for webhooks are posted until they are accepted, and no receiver holds up another one."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from redis import Redis
from scrapy.settings import Settings

from tests.crawls import NO_NAMES
from tests.service.receiver import SECRET, Posted, Receiver
from webcrawl.engine.client import Engine
from webcrawl.service.hooks.delivery import WebhookDelivery
from webcrawl.service.hooks.sending import WebhookSender
from webcrawl.service.hooks.webhook import Webhook


@asynccontextmanager
async def delivering(
    engine: Engine, *hooks: Webhook, pauses: tuple[float, ...] = (0.05, 0.05), **settings: Any
) -> AsyncIterator[tuple[list[WebhookDelivery], Counter[str]]]:
    """Deliveries in this process, with short pauses."""
    outcomes = Counter[str]()
    sender = WebhookSender(Settings({"DNS_SERVERS": NO_NAMES, **settings}))
    deliveries = [WebhookDelivery(engine, hook, sender, outcomes, pauses) for hook in hooks]
    tasks = [asyncio.create_task(delivery.run()) for delivery in deliveries]
    try:
        yield deliveries, outcomes
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await sender.close()


def put(valkey: Redis, hook: Webhook, *paths: str) -> None:
    for number, path in enumerate(paths, 1):
        event = json.dumps({"url": f"http://example.org/{path}"})
        valkey.xadd(f"wc:webhooks:{hook.id}", {"id": f"{number}-0", "event": event})


async def become(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def test_an_event_is_posted_again_until_it_is_accepted_or_given_up(
    engine_at: Callable[..., Engine], redis_url: str, valkey: Redis
) -> None:
    tries = Counter[str]()

    def answer(posted: Posted) -> int:
        tries[posted.id] += 1
        path = posted.body["data"]["url"].rpartition("/")[2]
        return {"good": 200, "late": 200 if tries[posted.id] > 2 else 503, "bad": 500}[path]

    with Receiver(answer) as receiver:
        hook = Webhook("a", receiver.url, SECRET, is_named=True)
        put(valkey, hook, "good", "late", "bad")
        async with delivering(engine_at(redis_url), hook) as (_, outcomes):
            await become(lambda: outcomes["delivered"] == 2 and outcomes["given-up"] == 1)
    assert tries == {"1-0": 1, "2-0": 3, "3-0": 3}
    assert outcomes["failed"] == 2 + 3 and valkey.xlen("wc:webhooks:a") == 0


async def test_a_receiver_that_fails_holds_up_no_other_one(
    engine_at: Callable[..., Engine], redis_url: str, valkey: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webcrawl.service.hooks.sending.SECONDS", 3.0)
    ending = threading.Event()
    with (
        Receiver() as good,
        Receiver(lambda posted: 200 + ending.wait(30)) as slow,
        Receiver() as inner,
        Receiver(lambda posted: 302, location=inner.url) as redirects,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        receivers = {
            "good": good.url,
            "slow": slow.url,
            "redirects": redirects.url,
            "silent": f"http://127.0.0.1:{silent.getsockname()[1]}/hook",
            "closed": "http://127.0.0.1:1/hook",
            "nameless": "http://nothing.test/hook",
        }
        hooks = [Webhook(name, url, SECRET, is_named=True) for name, url in receivers.items()]
        # added over HTTP, and its name has got an inner address since
        hooks.append(Webhook("inner", inner.url, SECRET))
        for hook in hooks:
            put(valkey, hook, *map(str, range(40)))
        async with delivering(engine_at(redis_url), *hooks, pauses=(60.0,)) as (deliveries, _):
            states = {delivery.hook.id: delivery.state for delivery in deliveries}
            await become(lambda: states["good"].delivered == 40)
            await become(lambda: all(state.error for name, state in states.items() if name != "good"))
        ending.set()
        assert inner.posted == []
        errors = {name: state.error for name, state in states.items()}
        assert errors.pop("good") == ""
        assert errors["slow"] == errors["silent"] == "no answer within 3 seconds"
        assert errors["redirects"] == "status 302: redirects are not followed"
        assert "127.0.0.1 is loopback" in errors["inner"]
        assert "nothing.test" in errors["nameless"] and errors["closed"]
        assert all(valkey.xlen(f"wc:webhooks:{name}") == 40 for name in errors)


@pytest.mark.parametrize(
    "answer, error",
    [
        (b"SSH-2.0\r\n\r\n", "the answer is no HTTP"),
        (b"HTTP/1.1 200", "the connection ended before the answer"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"a" * 100_000, "the head of the answer is too long"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 6, "there is no answer after several interim ones"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", ""),
    ],
)
async def test_an_answer_that_is_no_http_is_named(answer: bytes, error: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        sender = WebhookSender(Settings({"DNS_SERVERS": NO_NAMES}))
        hook = Webhook("a", f"http://127.0.0.1:{port}/", SECRET, is_named=True)
        assert await sender.send(hook, "1-0", b"{}") == error
        await sender.close()
