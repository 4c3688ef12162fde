"""The DUST rules of hosts as an operator sees them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgpack

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.frontier.records import rules_off


@dataclass(frozen=True, slots=True)
class DustRules:
    """The rules of one crawl."""

    engine: Engine
    keys: Keys

    async def of(self, host: str) -> tuple[bytes, frozenset[str]]:
        """Returns the packed evidence for the rules of a host, and the rules that are switched off."""
        client = self.engine.client
        known, off = [await client.hget(self._key(host, name), host) for name in ("dust", "dust_off")]
        return known or b"", rules_off(off)

    async def switch_off(self, host: str, rules: Collection[str]) -> None:
        """Switches these rules of a host off, and all others on.

        A worker that has leased the host applies the change with its next lease.
        """
        key = self._key(host, "dust_off")
        if rules:
            await self.engine.change(key, "HSET", host, msgpack.packb(sorted(rules)))
        else:
            await self.engine.change(key, "HDEL", host)

    def _key(self, host: str, name: str) -> str:
        return self.keys.queue(self.keys.shard(host))[0] + name
