"""Restores the records of a checkpoint that belong to the crawl as a whole, not to a shard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.replication import Command

_CARRIED = ("added", "done", "reaped", "refused")
"""Counters of the past. The others follow from what is restored."""

_OF_THE_COPY = (b"format", b"restoring", b"tails")
"""Fields of `info` that are not restored, because the new crawl sets its own values."""


class CrawlRecords:
    """A method for each kind of record, called `put_` and the kind."""

    def __init__(self, engine: Engine, keys: Keys) -> None:
        self._engine = engine
        self._keys = keys

    async def put_counters(self, counters: dict[bytes, int]) -> None:
        for name in _CARRIED:
            if amount := counters.get(name.encode()):
                await self._engine.change(self._keys.counters(0), "HINCRBY", name, amount)

    async def put_info(self, info: dict[bytes, bytes]) -> None:
        await self._set_fields(
            "info", {name: value for name, value in info.items() if name not in _OF_THE_COPY}
        )

    async def put_totals(self, totals: dict[bytes, bytes]) -> None:
        await self._set_fields("totals", totals)

    async def put_seed_addresses(self, addresses: dict[bytes, bytes]) -> None:
        await self._set_fields("seed_addresses", addresses)

    async def _set_fields(self, name: str, fields: dict[bytes, bytes]) -> None:
        if fields:
            await self._engine.change(self._keys.own(name), "HSET", *flat(fields))

    async def put_set(self, name: bytes, members: Sequence[bytes]) -> None:
        if members:
            await self._engine.change(self._keys.own(name.decode()), "SADD", *members)

    async def put_met(self, hyperloglog: bytes) -> None:
        if hyperloglog:
            await self._engine.change(self._keys.own("hosts"), "SET", hyperloglog)

    async def put_sums(self, sums: Iterable[Sequence[bytes]]) -> None:
        await self._set_hashes((self._keys.checksum(digest), (digest, first)) for digest, first in sums)

    async def put_texts(self, texts: Iterable[Sequence[bytes]]) -> None:
        await self._set_hashes((self._keys.text(url_id), (url_id, text)) for url_id, text in texts)

    async def put_like(self, blocks: Iterable[Sequence[bytes]]) -> None:
        keys = [(self._keys.like(int(block, 16)), texts) for block, texts in blocks]
        await self._engine.change_all([Command(key, ("SET", key, texts)) for key, texts in keys])

    async def _set_hashes(self, hashes: Iterable[tuple[str, Sequence[bytes]]]) -> None:
        await self._engine.change_all([Command(key, ("HSET", key, *fields)) for key, fields in hashes])


def flat(fields: dict[bytes, bytes]) -> list[bytes]:
    """Returns names and values alternately."""
    return [part for pair in fields.items() for part in pair]
