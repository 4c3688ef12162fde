"""Claims: entries that a worker takes from a RedisSpider's list can be put back until the frontier has them."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis
from redis.crc import key_slot

from tests.cases import cases
from webcrawl.crawler.scheduling.start_urls import Kind, StartURLClaims

KEY = "fed:start_urls"
ENTRIES = [b"http://a.test/1", b'{"url": "http://a.test/2 3", "meta": {}}', b"http://a.test/4"]


def fill(valkey: Redis, kind: Kind) -> None:
    if kind == "list":
        valkey.rpush(KEY, *ENTRIES)
    elif kind == "set":
        valkey.sadd(KEY, *ENTRIES)
    else:
        valkey.zadd(KEY, {entry: 10.5 - place for place, entry in enumerate(ENTRIES)})


def content(valkey: Redis, kind: Kind) -> Any:
    if kind == "list":
        return valkey.lrange(KEY, 0, -1)
    return valkey.smembers(KEY) if kind == "set" else valkey.zrange(KEY, 0, -1, withscores=True)


@pytest.mark.parametrize("kind", ["list", "set", "zset"])
def test_claims_are_settled_or_given_back(valkey: Redis, kind: Kind) -> None:
    fill(valkey, kind)
    before = content(valkey, kind)
    one, other = (StartURLClaims(valkey, KEY, kind, "crawl", name) for name in ("one", "other"))
    taken = one.take(KEY, 2)
    assert {*taken} < {*ENTRIES} and len(taken) == 2
    assert kind == "set" or taken == ENTRIES[:2]
    assert one.take(KEY, 2) == [], "one batch at a time"
    assert {*taken, *other.take(KEY, 2)} == {*ENTRIES}
    assert not valkey.exists(KEY)
    assert sorted(other.owners()) == ["one", "other"]

    assert other.give_back(["one"]) == 2
    assert other.owners() == ["other"]
    assert other.give_back(["other", "nobody"]) == 1
    if kind == "list":
        assert content(valkey, kind) == [ENTRIES[2], *ENTRIES[:2]]
    else:
        assert content(valkey, kind) == before
    assert valkey.keys("*claimed*") == []

    one.settle()
    assert len(one.take(KEY, 9)) == 3
    one.settle()
    assert (one.take(KEY, 9), valkey.keys("*")) == ([], [])


def test_a_claim_with_a_lost_reply_is_returned_again(valkey: Redis) -> None:
    fill(valkey, "list")
    lost = StartURLClaims(valkey, KEY, "list", "crawl", "one").take(KEY, 1)
    claims = StartURLClaims(valkey, KEY, "list", "crawl", "one")
    assert claims.take(KEY, 1) == lost == ENTRIES[:1]
    claims.settle()
    assert claims.take(KEY, 1) == ENTRIES[1:2]


def test_crawls_have_separate_claims(valkey: Redis) -> None:
    fill(valkey, "list")
    StartURLClaims(valkey, KEY, "list", "first", "one").take(KEY, 1)
    assert StartURLClaims(valkey, KEY, "list", "second", "two").owners() == []


@cases("key", [KEY, "{fed}:start_urls", "a}{b}c", "x{y"])
def test_all_keys_are_in_the_slot_of_the_list(key: str) -> None:
    _, *keys = StartURLClaims(None, key, "list", "crawl", "host:1:abc")._keys("other:2:def")
    assert len({key_slot(one.encode()) for one in keys}) == 1
