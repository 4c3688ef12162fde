"""Webhooks: events are posted to receivers, signed, at least once, whatever a receiver does."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable

import pytest
from redis import Redis

from tests.cases import cases
from tests.crawls import until
from tests.service.receiver import SECRET, Posted, Receiver
from tests.service.served import Served
from webcrawl.client import AsyncClient, Client, ServiceProblem
from webcrawl.errors import ConfigurationError, InvalidURL
from webcrawl.service.hooks.delivery import PAUSES
from webcrawl.service.hooks.webhook import Webhook, named_webhooks, new_secret, receiver_url, secret_bytes

STREAM = "wc:{c:live}:pages"
GROUP = "webhooks"


def publish(valkey: Redis, url: str, tag: str = "") -> str:
    """Adds the event of a page to the stream of the live lane; returns its ID."""
    event = {"kind": "page", "ids": [], "url": url, "final_url": url, "tag": tag, "status": 200}
    number: bytes = valkey.xadd(STREAM, {"page": json.dumps(event)})
    return number.decode()


def waiting(service: Served) -> list[int]:
    return [hook["waiting"] for hook in service.client.get("/v1/webhooks").json()["webhooks"]]


def test_signatures_are_those_of_the_specification() -> None:
    """The example of https://docs.svix.com/receiving/verifying-payloads/how-manual."""
    headers = Webhook("1", "http://a.test/", SECRET).headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert len(secret_bytes(new_secret())) == 32 and new_secret() != new_secret()


@cases(
    "entry, error",
    [
        ("http://a.test/", 'it must be "URL SECRET" or "URL SECRET TAG"'),
        (f"http://a.test/ {SECRET} tag more", 'it must be "URL SECRET" or "URL SECRET TAG"'),
        ("http://a.test/ private", "a secret begins with whsec_"),
        ("http://a.test/ whsec_private", "a secret is base64 after whsec_"),
        ("http://a.test/ whsec_cHJpdmF0ZQ==", "a secret has from 24 to 64 bytes, not 7"),
        (f"ftp://a.test/ {SECRET}", "'ftp://a.test/' cannot be a receiver: it needs http or https"),
        (f"http://u:private@a.test/ {SECRET}", "'http://...@a.test/' cannot be a receiver: it needs http"),
        (f"http://a.test/ {SECRET} {'t' * 65}", "a tag has at most 64 characters"),
    ],
)
def test_a_wrong_entry_of_the_settings_is_named_without_its_secret(entry: str, error: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        list(named_webhooks([f"http://b.test/ {SECRET} news", entry]))
    assert str(raised.value).startswith(f"WEBHOOKS, entry 2: {error}")
    assert "private" not in str(raised.value)


def test_a_receiver_has_no_password_and_no_line_break() -> None:
    for url in ("http://user:word@a.test/", "a.test", "http://a.test/" + "a" * 3000):
        with pytest.raises(InvalidURL):
            receiver_url(url)
    assert "\n" not in receiver_url("http://a.test/\r\nX: y")


def test_events_with_a_tag_are_posted_and_survive_the_service(
    start_service: Callable[..., Served], redis_url: str, valkey: Redis
) -> None:
    hangs = threading.Event()

    def answer(posted: Posted) -> int:
        if posted.body["data"]["url"].endswith("/held") and not hangs.is_set():
            hangs.wait(60)
        return 204

    with Receiver(answer) as receiver:
        # an inner address, because the settings name it
        settings = {"REDIS_URL": redis_url, "ALLOWED_NETWORKS": ""}
        service = start_service(WEBHOOKS=f"{receiver.url} {SECRET} news", **settings)
        until(lambda: valkey.exists(STREAM) and valkey.xinfo_groups(STREAM), service.process, 30)
        publish(valkey, "http://example.org/other", "sport")
        number = publish(valkey, "http://example.org/a", "news")
        (posted,) = receiver.wait(1)
        assert posted.id == number and posted.body["type"] == "page.finished"
        assert posted.body["timestamp"].endswith("Z")
        assert posted.body["data"]["url"] == "http://example.org/a"
        until(lambda: waiting(service) == [0], service.process, 30)

        held = publish(valkey, "http://example.org/held", "news")
        receiver.wait(2)
        service.process.process.kill()
        service.process.process.wait(30)
        later = publish(valkey, "http://example.org/later", "news")
        hangs.set()
        again = start_service(WEBHOOKS=f"{receiver.url} {SECRET} news", **settings)
        # the attempt of the dead service is over after the first pause
        assert {posted.id for posted in receiver.wait(4, PAUSES[0] + 60)[2:]} == {held, later}
        until(lambda: waiting(again) == [0], again.process, 30)


def test_a_webhook_is_added_for_the_events_from_then_on_and_removed(
    start_service: Callable[..., Served], redis_url: str, valkey: Redis
) -> None:
    service, other = (start_service(REDIS_URL=redis_url) for _ in range(2))
    publish(valkey, "http://example.org/before")
    with Receiver() as receiver:
        wanted = {"url": receiver.url, "host": "example.org", "pattern": "*/a*", "secret": SECRET}
        answer = service.client.post("/v1/webhooks", json=wanted)
        assert answer.status_code == 201
        added = answer.json()
        assert added["id"] and added | wanted == added
        for path in ("a1", "b", "a2"):
            publish(valkey, f"http://example.org/{path}")
        publish(valkey, "http://example.net/a3")
        receiver.wait(2)
        paths = {posted.body["data"]["url"].rpartition("/")[2] for posted in receiver.posted}
        assert paths == {"a1", "a2"}
        (shown,) = other.client.get("/v1/webhooks").json()["webhooks"]
        assert "secret" not in shown and shown["host"] == "example.org"
        assert other.client.delete(f"/v1/webhooks/{shown['id']}").status_code == 204
        assert other.client.delete(f"/v1/webhooks/{shown['id']}").status_code == 404
        until(lambda: not valkey.xinfo_groups(STREAM), service.process, 30)
        assert not valkey.keys("wc:webhooks*")


def test_receivers_that_may_not_be_are_refused(start_service: Callable[..., Served], redis_url: str) -> None:
    with Receiver() as receiver:
        service = start_service(
            REDIS_URL=redis_url, ALLOWED_NETWORKS="", WEBHOOKS=f"http://10.0.0.1/ {SECRET}"
        )

        def add(url: str, **more: str) -> tuple[int, str]:
            answer = service.client.post("/v1/webhooks", json={"url": url, **more})
            return answer.status_code, answer.json()["detail"]

        assert add(receiver.url)[0] == 400 and "127.0.0.1 is loopback" in add(receiver.url)[1]
        assert "link-local" in add("http://169.254.169.254/latest")[1]
        assert "loopback" in add("http://[::ffff:127.0.0.1]/")[1]
        assert "no password" in add("https://user:word@example.org/")[1]
        assert "whsec_" in add("https://example.org/", secret="word")[1]
        (named,) = service.client.get("/v1/webhooks").json()["webhooks"]
        assert named["named"] and service.client.delete(f"/v1/webhooks/{named['id']}").status_code == 409
        assert receiver.posted == []


def test_both_clients_add_list_and_remove_webhooks(
    start_service: Callable[..., Served], redis_url: str, valkey: Redis
) -> None:
    service = start_service(REDIS_URL=redis_url, WEBHOOKS=f"http://10.0.0.1/ {SECRET}")
    with Receiver() as receiver, Client(service.url) as client:
        hook = client.add_webhook(receiver.url, tag="news", pattern="*/a", secret=SECRET)
        assert (hook.url, hook.tag, hook.host, hook.secret) == (receiver.url, "news", "", SECRET)
        event = publish(valkey, "http://example.org/a", "news")
        assert receiver.wait(1)[0].id == event
        shown = {entry.id: entry for entry in client.webhooks()}[hook.id]
        assert shown.pattern == "*/a" and not shown.secret
        asyncio.run(asyncio.wait_for(exchange(service.url, hook.id), 100))
        with pytest.raises(ServiceProblem, match="body: a secret begins with whsec_"):
            client.add_webhook(receiver.url, secret="word")
        (named,) = client.webhooks()
        with pytest.raises(ServiceProblem, match="it is in the settings"):
            client.remove_webhook(named.id)


async def exchange(url: str, removed: str) -> None:
    """Replaces a webhook with another, and removes that too."""
    async with AsyncClient(url) as client:
        await client.remove_webhook(removed)
        with pytest.raises(ServiceProblem, match="there is no such webhook"):
            await client.remove_webhook(removed)
        added = await client.add_webhook("http://127.0.0.1:9/", host="example.org")
        assert isinstance(added.secret, str) and added.secret.startswith("whsec_")
        assert {hook.host for hook in await client.webhooks() if not hook.named} == {"example.org"}
        await client.remove_webhook(added.id)
