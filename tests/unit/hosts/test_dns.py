"""The resolver against a real name server: lifetimes, failures, and shared queries."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.cases import cases
from tests.nameserver import Nameserver, Record, Trouble
from tests.unit.hosts.resolving import Clock, eventually, refusal, run
from webcrawl.errors import ConfigurationError, NameNotResolved
from webcrawl.hosts.dns import FAILURE_TTL, ResolvedName, Resolver


@pytest.fixture
def nameserver() -> Iterator[Nameserver]:
    zone: dict[str, list[Record] | Trouble] = {
        "example.test": [Record("AAAA", "2001:db8::1", 300), Record("A", "192.0.2.1", 200)],
        "alias.test": [Record("CNAME", "middle.test.", 20)],
        "middle.test": [Record("CNAME", "example.test.", 90)],
        "moment.test": [Record("A", "192.0.2.2", 1)],
        "unkept.test": [Record("A", "192.0.2.3", 0)],
        "week.test": [Record("A", "192.0.2.4", 7 * 86400)],
        "six.test": [Record("AAAA", "2001:db8::6", 60)],
        "empty.test": [],
        "broken.test": Trouble.SERVFAIL,
        "silent.test": Trouble.SILENCE,
        "*.wild.test": [Record("A", "192.0.2.5", 60)],
    }
    with Nameserver(zone) as server:
        yield server


def lifetime(answer: ResolvedName) -> float:
    return answer.expires - time.monotonic()


def test_ipv4_comes_first_with_the_smallest_ttl_of_the_cname_chain(nameserver: Nameserver) -> None:
    resolver = Resolver([nameserver.address])

    async def scenario() -> None:
        answer = await resolver.resolve("example.test")
        assert answer.addresses == ("192.0.2.1", "2001:db8::1")
        assert lifetime(answer) == pytest.approx(200, abs=2)
        alias = await resolver.resolve("alias.test")
        assert alias.addresses == answer.addresses
        assert lifetime(alias) == pytest.approx(20, abs=2)
        assert (await resolver.resolve("six.test")).addresses == ("2001:db8::6",)
        assert (await resolver.resolve("any.thing.wild.test")).addresses == ("192.0.2.5",)

    run(resolver, scenario)


def test_answer_is_cached_for_its_ttl_in_any_spelling(nameserver: Nameserver) -> None:
    clock = Clock()
    resolver = Resolver([nameserver.address], clock=clock)

    async def scenario() -> None:
        first = await resolver.resolve("example.test")
        clock.ahead = 199.0 - 2.0
        assert await resolver.resolve("Example.TEST.") is first
        clock.ahead = 201.0
        assert (await resolver.resolve("example.test")).expires > first.expires

    run(resolver, scenario)


def test_a_bounded_number_of_addresses_is_kept_always_the_same_ones(nameserver: Nameserver) -> None:
    resolver = Resolver([nameserver.address])
    records = [Record("A", f"192.0.2.{number}", 0) for number in range(40)]
    records += [Record("AAAA", f"2001:db8::{number:x}", 0) for number in range(1, 36)]

    async def scenario() -> None:
        answers = set()
        for order in (records, records[::-1]):
            nameserver.zone = {"many.test": order}
            answers.add((await resolver.resolve("many.test")).addresses)
        ((*addresses,),) = answers
        assert [":" in address for address in addresses] == [False] * 32 + [True] * 32

    run(resolver, scenario)


def test_server_is_queried_again_only_after_the_ttl(nameserver: Nameserver) -> None:
    resolver = Resolver([nameserver.address])

    async def scenario() -> None:
        started = time.monotonic()
        await resolver.resolve("moment.test")
        async with asyncio.timeout(60):
            while nameserver.count("moment.test") == 1:
                await resolver.resolve("moment.test")
                await asyncio.sleep(0.005)
        assert time.monotonic() - started >= 1.0

    run(resolver, scenario)


def test_ttl_is_clamped_to_its_limits(nameserver: Nameserver) -> None:
    resolver = Resolver([nameserver.address], min_ttl=30, max_ttl=100)

    async def scenario() -> None:
        assert lifetime(await resolver.resolve("moment.test")) == pytest.approx(30, abs=2)
        assert lifetime(await resolver.resolve("week.test")) == pytest.approx(100, abs=2)

    run(resolver, scenario)


def test_answer_with_ttl_0_is_shared_by_waiters_but_not_cached(nameserver: Nameserver) -> None:
    resolver = Resolver([nameserver.address], min_ttl=30)

    async def scenario() -> None:
        nameserver.hold()
        waiting = [asyncio.ensure_future(resolver.resolve("unkept.test")) for _ in range(20)]
        await eventually(lambda: nameserver.count("unkept.test") > 0)
        nameserver.release()
        assert {answer.addresses for answer in await asyncio.gather(*waiting)} == {("192.0.2.3",)}
        assert nameserver.count("unkept.test") == 1
        await resolver.resolve("unkept.test")
        assert nameserver.count("unkept.test") == 2

    run(resolver, scenario)


def test_cancelled_waiter_does_not_cancel_the_query_of_others(nameserver: Nameserver) -> None:
    resolver = Resolver([nameserver.address])

    async def scenario() -> None:
        nameserver.hold()
        first, second = (asyncio.ensure_future(resolver.resolve("example.test")) for _ in range(2))
        await eventually(lambda: nameserver.count("example.test") > 0)
        first.cancel()
        await asyncio.wait([first])
        assert first.cancelled()
        nameserver.release()
        assert (await second).addresses == ("192.0.2.1", "2001:db8::1")
        assert nameserver.count("example.test") == 1

    run(resolver, scenario)


@pytest.mark.parametrize("name", ["nowhere.test", "empty.test"])
def test_missing_name_is_a_permanent_failure_cached_for_negative_ttl(
    nameserver: Nameserver, name: str
) -> None:
    clock = Clock()
    resolver = Resolver([nameserver.address], negative_ttl=60, clock=clock)

    async def scenario() -> None:
        assert (await refusal(resolver, name)).permanent
        clock.ahead = 58
        assert (await refusal(resolver, name)).permanent
        assert nameserver.count(name) == 1
        nameserver.zone = {name: [Record("A", "192.0.2.9")]}
        async with asyncio.timeout(60):
            while True:
                # c-ares clears its cache in the background: the first query may still get the old answer
                clock.ahead += 61
                with suppress(NameNotResolved):
                    assert (await resolver.resolve(name)).addresses == ("192.0.2.9",)
                    return

    run(resolver, scenario)


@pytest.mark.parametrize("name", ["broken.test", "silent.test"])
def test_server_failure_is_temporary_and_retried_soon(nameserver: Nameserver, name: str) -> None:
    clock = Clock()
    resolver = Resolver([nameserver.address], timeout=0.4, clock=clock)

    async def scenario() -> None:
        started = time.monotonic()
        assert not (await refusal(resolver, name)).permanent
        assert time.monotonic() - started < 4
        queries = nameserver.count(name)
        assert not (await refusal(resolver, name)).permanent
        assert nameserver.count(name) == queries, "the failure is cached briefly"
        clock.ahead = FAILURE_TTL + 1
        nameserver.zone = {name: [Record("A", "192.0.2.9")]}
        assert (await resolver.resolve(name)).addresses == ("192.0.2.9",)

    run(resolver, scenario)


def test_second_server_is_queried_when_the_first_is_silent(nameserver: Nameserver) -> None:
    with Nameserver({"*.test": Trouble.SILENCE}) as silent:
        resolver = Resolver([silent.address, nameserver.address], timeout=2)

        async def scenario() -> None:
            assert (await resolver.resolve("example.test")).addresses[0] == "192.0.2.1"
            assert silent.count("example.test") > 0

        run(resolver, scenario)


def test_ipv4_is_resolved_when_the_server_ignores_aaaa_queries() -> None:
    with Nameserver({"old.test": [Record("A", "192.0.2.1")]}, silent_about={"AAAA"}) as old:
        resolver = Resolver([old.address], timeout=2)

        async def scenario() -> None:
            assert (await resolver.resolve("old.test")).addresses == ("192.0.2.1",)

        run(resolver, scenario)


def test_slow_answer_of_a_fast_server_is_awaited(nameserver: Nameserver) -> None:
    resolver = Resolver([nameserver.address], timeout=5)

    async def scenario() -> None:
        for number in range(20):
            await resolver.resolve(f"{number}.wild.test")
        nameserver.hold()
        slow = asyncio.ensure_future(resolver.resolve("example.test"))
        await eventually(lambda: nameserver.count("example.test") == 3)
        nameserver.release()
        assert (await slow).addresses[0] == "192.0.2.1"

    run(resolver, scenario)


def test_least_recently_used_name_is_evicted(nameserver: Nameserver) -> None:
    resolver = Resolver([nameserver.address], max_names=2)

    async def scenario() -> None:
        a, b, c = "a.wild.test", "b.wild.test", "c.wild.test"
        first = {name: await resolver.resolve(name) for name in (a, b)}
        for name in (a, c):
            await resolver.resolve(name)
        assert await resolver.resolve(a) is first[a]
        assert await resolver.resolve(b) is not first[b]

    run(resolver, scenario)


def test_system_configuration_applies_without_servers() -> None:
    resolver = Resolver()

    async def scenario() -> None:
        answer = await resolver.resolve("localhost")
        assert answer.addresses[0] in ("127.0.0.1", "::1")

    run(resolver, scenario)


@pytest.mark.parametrize(
    ("hostname", "address"),
    [("192.0.2.1", "192.0.2.1"), ("[2001:DB8::1]", "2001:db8::1"), ("::1", "::1")],
)
def test_ip_address_is_returned_without_a_query(nameserver: Nameserver, hostname: str, address: str) -> None:
    resolver = Resolver([nameserver.address])

    async def scenario() -> None:
        assert await resolver.resolve(hostname) == ResolvedName((address,), math.inf)
        assert not nameserver.queries

    run(resolver, scenario)


@pytest.mark.parametrize("name", ["", ".", "a..test", "a b.test", "a\0.test", "é.test", "x" * 64 + ".test"])
def test_invalid_name_is_never_queried(nameserver: Nameserver, name: str) -> None:
    resolver = Resolver([nameserver.address])

    async def scenario() -> None:
        assert (await refusal(resolver, name)).permanent
        assert not nameserver.queries

    run(resolver, scenario)


def test_close_fails_pending_and_further_queries(nameserver: Nameserver) -> None:
    resolver = Resolver([nameserver.address])

    async def scenario() -> None:
        waiting = asyncio.ensure_future(refusal(resolver, "silent.test"))
        await eventually(lambda: nameserver.count("silent.test") > 0)
        await resolver.close()
        assert not (await waiting).permanent
        assert not (await refusal(resolver, "example.test")).permanent
        assert nameserver.count("example.test") == 0

    run(resolver, scenario)


@cases(
    "server",
    [
        "",
        "ns.example",
        "192.0.2.1:",
        "192.0.2.1:0",
        "192.0.2.1:65536",
        "192.0.2.1:dns",
        "[2001:db8::1",
        "[192.0.2]:53",
    ],
)
def test_invalid_server_names_the_setting(server: str) -> None:
    with pytest.raises(ConfigurationError, match="DNS_SERVERS"):
        Resolver(["192.0.2.1", server])


@cases(
    ("server", "expected"),
    [
        ("192.0.2.1", "192.0.2.1:53"),
        ("192.0.2.1:5353", "192.0.2.1:5353"),
        ("2001:db8::1", "[2001:db8::1]:53"),
        ("[2001:db8::1]", "[2001:db8::1]:53"),
        ("[2001:db8::1]:5353", "[2001:db8::1]:5353"),
    ],
)
def test_server_is_parsed_with_or_without_port(server: str, expected: str) -> None:
    assert Resolver([server])._servers == [expected]
