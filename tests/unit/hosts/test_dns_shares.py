"""What names and domains may cost the resolver, against a real name server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.nameserver import Nameserver, Record, Trouble
from tests.unit.hosts.resolving import Clock, eventually, refusal, run
from webcrawl.errors import NameNotResolved
from webcrawl.hosts.dns import Resolver


@pytest.fixture
def nameserver() -> Iterator[Nameserver]:
    zone: dict[str, list[Record] | Trouble] = {
        "example.test": [Record("A", "192.0.2.1", 200)],
        "unkept.test": [Record("A", "192.0.2.3", 0)],
        "*.wild.test": [Record("A", "192.0.2.5", 60)],
        "*.dead.test": Trouble.SERVFAIL,
    }
    with Nameserver(zone) as server:
        yield server


def test_one_domain_has_a_quarter_of_the_queries(nameserver: Nameserver) -> None:
    resolver = Resolver([nameserver.address], max_questions=12)

    async def scenario() -> None:
        nameserver.hold()
        crowd = [asyncio.ensure_future(resolver.resolve(f"{number}.wild.test")) for number in range(50)]
        await eventually(lambda: len(nameserver.queries) == 6)  # two for each name
        other = asyncio.ensure_future(resolver.resolve("example.test"))
        await eventually(lambda: nameserver.count("example.test") == 2)
        assert len(nameserver.queries) == 8
        nameserver.release()
        await other
        assert len(await asyncio.gather(*crowd)) == 50

    run(resolver, scenario)


def test_a_name_with_an_answer_is_asked_for_while_new_names_hold_their_share(nameserver: Nameserver) -> None:
    resolver = Resolver([nameserver.address], max_questions=4)

    async def scenario() -> None:
        await resolver.resolve("unkept.test")
        nameserver.hold()
        domains = [f"name.domain{number}.test" for number in range(9)]
        crowd = [asyncio.ensure_future(resolver.resolve(name)) for name in domains]
        await eventually(lambda: len(nameserver.queries) == 2 + 6)
        again = asyncio.ensure_future(resolver.resolve("unkept.test"))
        await eventually(lambda: nameserver.count("unkept.test") == 2)
        assert len(nameserver.queries) == 2 + 6
        nameserver.release()
        await again
        failed = await asyncio.gather(*crowd, return_exceptions=True)
        assert all(isinstance(one, NameNotResolved) and one.permanent for one in failed)

    run(resolver, scenario)


def test_a_domain_whose_nameservers_are_dead_is_not_asked_for_a_while(nameserver: Nameserver) -> None:
    clock = Clock()
    resolver = Resolver([nameserver.address], clock=clock)

    async def scenario() -> None:
        for number in range(5):
            await refusal(resolver, f"{number}.dead.test")
        error = await refusal(resolver, "5.dead.test")
        assert not error.permanent and "the nameservers of dead.test do not answer" in str(error)
        assert nameserver.count("5.dead.test") == 0
        await resolver.resolve("example.test")
        clock.ahead = 5.1
        nameserver.zone = {**nameserver.zone, "*.dead.test": [Record("A", "192.0.2.9", 60)]}
        assert (await resolver.resolve("5.dead.test")).addresses == ("192.0.2.9",)
        assert (await resolver.resolve("6.dead.test")).addresses == ("192.0.2.9",)

    run(resolver, scenario)


def test_names_that_do_not_exist_do_not_drive_out_answers(nameserver: Nameserver) -> None:
    resolver = Resolver([nameserver.address], max_names=2)

    async def scenario() -> None:
        await resolver.resolve("example.test")
        for number in range(5):
            assert (await refusal(resolver, f"missing{number}.test")).permanent
        await resolver.resolve("example.test")
        assert nameserver.count("example.test") == 1

    run(resolver, scenario)
