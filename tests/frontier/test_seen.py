"""The seen set: exact for 48 bits of each fingerprint, and small, because its buckets stay intsets as they grow."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings, strategies as st
from redis import Redis

from tests.frontier.pages import page
from webcrawl.engine.keys import Keys
from webcrawl.frontier import Candidate, Frontier

HOST = "http://a.test"
LEAST, MOST = -(2**63), 2**63 - 1

fingerprints = st.integers(LEAST, MOST) | st.sampled_from([0, 1, -1, LEAST, MOST, 10**9, -(10**9), -(10**8)])
hosts = st.from_regex(r"https?://[a-z]{1,8}(:[1-9][0-9]{0,3})?", fullmatch=True)


def candidates(values: list[int]) -> list[Candidate]:
    return [Candidate(HOST, f"/{value}", value) for value in values]


def buckets(valkey: Redis) -> dict[bytes, int]:
    """Bucket key -> number of fingerprints."""
    return {key: valkey.scard(key) for key in valkey.scan_iter("wc:*:seen:*", count=10_000)}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_every_fingerprint_is_new_once(
    frontier_of: Callable[..., Frontier], runner: asyncio.Runner, valkey: Redis, data: st.DataObject
) -> None:
    """A bucket is split repeatedly between adding the same fingerprints again."""
    valkey.flushall()
    frontier = frontier_of(shards=1)
    filler = random.Random(data.draw(st.integers(0, 10**6)))
    known: set[int] = set()
    for _ in range(3):
        batch = data.draw(st.lists(fingerprints, max_size=20))
        batch += [filler.randint(LEAST, MOST) for _ in range(data.draw(st.sampled_from([0, 100, 500])))]
        batch += data.draw(st.lists(st.sampled_from(sorted(known)), max_size=20)) if known else []
        verdicts = runner.run(frontier.add(candidates(batch)))
        expected = []
        for value in batch:
            expected.append(value % 2**48 not in known)
            known.add(value % 2**48)
        assert verdicts == expected
    assert not any(runner.run(frontier.add(candidates(sorted(known)))))
    assert sum(buckets(valkey).values()) == len(known)


async def test_buckets_stay_intsets_while_they_grow(frontier: Frontier, valkey: Redis) -> None:
    numbers = random.Random(1)
    values = [numbers.randint(LEAST, MOST) for _ in range(50_000)]
    hosts = [f"http://h{n}.test" for n in range(40)]
    for start in range(0, len(values), 2500):
        batch = [
            Candidate(hosts[n % 40], f"/{value}", value)
            for n, value in enumerate(values[start : start + 2500], start)
        ]
        assert all(await frontier.add(batch))
        assert {valkey.object("encoding", key) for key in buckets(valkey)} == {b"intset"}
    assert sum(buckets(valkey).values()) == len(values) == (await frontier.counts()).seen
    batch = [Candidate(hosts[n % 40], f"/{value}", value) for n, value in enumerate(values)]
    assert not any(await frontier.add(batch)), "the split of a bucket lost a fingerprint"


async def test_the_seen_set_takes_less_than_ten_bytes_per_url(
    frontier_of: Callable[..., Frontier], valkey: Redis
) -> None:
    frontier = frontier_of(shards=1)
    numbers = random.Random(2)
    await frontier.add(candidates([numbers.randint(LEAST, MOST) for _ in range(30_000)]))
    used = sum(valkey.memory_usage(key) for key in buckets(valkey))
    assert used / 30_000 < 10


async def test_a_large_add_keeps_the_order_of_verdicts(frontier: Frontier) -> None:
    numbers = random.Random(3)
    old = [page(f"http://h{n % 23}.test/{n}") for n in range(0, 5000, 3)]
    assert await frontier.add(old) == [True] * len(old)
    batch = [page(f"http://h{n % 23}.test/{n}") for n in range(5000)]
    numbers.shuffle(batch)
    known = {candidate.fingerprint for candidate in old}
    assert await frontier.add(batch) == [candidate.fingerprint not in known for candidate in batch]
    assert (await frontier.counts()).queued == 5000


async def test_a_host_may_get_more_urls_than_a_batch(frontier: Frontier) -> None:
    verdicts = await frontier.add([page(f"{HOST}/{n % 2600}") for n in range(5200)])
    assert verdicts == [True] * 2600 + [False] * 2600
    paths = []
    while leases := await frontier.lease(1, 1000):
        paths += [url.path for url in leases[0].urls]
        await frontier.release(leases[0], [])
        if len(paths) >= 1000:
            break
    assert paths == [f"/{n}" for n in range(1000)]


@given(hosts, fingerprints, st.integers(1, 65536))
def test_a_mark_holds_the_shard_of_its_host_and_48_bits(host: str, fingerprint: int, shards: int) -> None:
    """Marks can be restored into any number of shards."""
    mark = Keys("crawl", 16).mark(host, fingerprint)
    keys = Keys("crawl", shards)
    assert LEAST <= mark <= MOST
    assert keys.shard_of_mark(mark) == keys.shard(host)
    assert mark % 2**48 == fingerprint % 2**48
    assert mark != keys.mark(host, fingerprint ^ 1)


async def test_equal_fingerprints_of_two_hosts_are_two_urls(frontier: Frontier) -> None:
    assert await frontier.add([Candidate(f"http://{name}.test", "/", 7) for name in "abc"]) == [True] * 3


@given(st.text(min_size=1), st.integers(1, 64))
def test_a_host_has_the_same_shard_in_every_process(host: str, shards: int) -> None:
    keys = Keys("crawl", shards)
    assert 0 <= keys.shard(host) < shards
    assert keys.shard(host) == Keys("another", shards).shard(host)


def test_the_shard_of_a_host_never_changes_between_versions() -> None:
    """Otherwise a resumed crawl would not find its hosts."""
    hosts = [f"https://h{n}.example.org" for n in range(4)]
    assert [Keys("crawl", 16).shard(host) for host in hosts] == [9, 9, 7, 4]
    assert [Keys("crawl", 16).shard(f"{host}:8443") for host in hosts] == [9, 9, 7, 4]
    assert [Keys("crawl", 16, "origin").shard(host) for host in hosts] == [14, 4, 2, 11]
