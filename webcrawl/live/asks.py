"""Who waits for which URL of the live lane. The engine keeps this beside the URL's queue.

A URL is queued when somebody asks for it for whom nobody else waits, in the same step of the engine. So a URL that is
asked for by many is fetched once, and all get its event. A redirect moves those who wait to its target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgpack

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.scripts import script_call
from webcrawl.frontier.entry import DEFAULT_LEVEL, Candidate
from webcrawl.urls.canonical import split

_DAY = 24 * 3600


@dataclass(frozen=True, slots=True)
class LiveAsk:
    """A URL of a message.

    message  ID of the message in the stream
    number   of the URL in the message, and `of` how many
    url      as asked
    put      Unix time at which the message was put, by the clock of the engine
    chain    the URLs that have redirected so far, the asked one first, normalized
    meta     JSON, "" for none
    """

    message: str
    number: int
    of: int
    url: str
    put: float
    id: str = ""
    tag: str = ""
    meta: str = ""
    level: int = DEFAULT_LEVEL
    max_age: float = 0.0
    related: tuple[str, ...] = ()
    render: bool = False
    chain: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name of the ask among those who wait for a URL."""
        return f"{self.message} {self.number}"

    def moved(self, url: str) -> LiveAsk:
        """Returns the ask after this URL has redirected."""
        return replace(self, chain=(*self.chain, url))

    def encoded(self) -> bytes:
        return bytes(msgpack.packb([getattr(self, name) for name in _FIELDS]))

    @classmethod
    def decoded(cls, record: bytes) -> LiveAsk:
        values = dict(zip(_FIELDS, msgpack.unpackb(record), strict=True))
        return cls(**values | {name: tuple(values[name]) for name in ("related", "chain")})


_FIELDS = tuple(LiveAsk.__dataclass_fields__)


class WantedURL(NamedTuple):
    """A normalized URL, who asks for it, and the `extra` of its queue entry.

    `again`: queue it although others wait for it, because the frontier may not have it.
    """

    url: str
    ask: LiveAsk
    extra: bytes | None = None
    again: bool = False


class Asks:
    """The asks of one crawl. Methods may raise the errors of UNAVAILABLE, and may be repeated."""

    def __init__(self, engine: Engine, keys: Keys) -> None:
        self._engine = engine
        self._keys = keys

    async def add(self, wanted: Sequence[WantedURL]) -> int:
        """Adds asks; returns how many URLs were queued."""
        calls = [
            script_call("ask", self._keys.queue(shard), ask=_columns(group))
            for shard, group in self._keys.by_shard(wanted, lambda each: split(each.url)[0]).items()
        ]
        return sum(reply.count(b"1") for reply in await self._engine.run_all(calls))

    async def of(self, url: str) -> list[LiveAsk]:
        """Returns who waits for a normalized URL."""
        key = self._key(url)
        known = await self._engine.client.hget(key, url)
        # a name of an ask is text; a record is binary
        asks: Mapping[bytes, bytes] = msgpack.unpackb(known, raw=True) if known else {}
        return [LiveAsk.decoded(record) for record in asks.values()]

    async def of_host(self, host: str) -> dict[str, list[LiveAsk]]:
        """Returns who waits for each URL of a host."""
        waiting: dict[str, list[LiveAsk]] = {}
        async for url, known in self._engine.client.hscan_iter(self._key(host)):
            if url.startswith(host.encode() + b"/"):
                waiting[url.decode()] = [
                    LiveAsk.decoded(record) for record in msgpack.unpackb(known, raw=True).values()
                ]
        return waiting

    async def remove(self, url: str, asks: Iterable[LiveAsk]) -> None:
        """Removes asks for a normalized URL."""
        keys = [ask.key for ask in asks]
        columns = {"url": [url] * len(keys), "key": keys}
        await self._engine.run(script_call("unask", self._keys.queue(self._shard(url))[:1], ask=columns))

    async def begin(self, message: str, of: int) -> None:
        """Notes that a message has several URLs."""
        key = self._keys.own(f"left:{message}")
        await self._engine.change(key, "SADD", *map(str, range(of)))
        await self._engine.change(key, "EXPIRE", 7 * _DAY)

    async def finish(self, ask: LiveAsk) -> bool:
        """Notes that a URL of a message is finished; returns whether all of the message are."""
        if ask.of == 1:
            return True
        key = self._keys.own(f"left:{ask.message}")
        await self._engine.change(key, "SREM", str(ask.number))
        return not await self._engine.client.exists(key)

    async def is_open(self, ask: LiveAsk) -> bool:
        """Whether an ask of a message with several URLs is unfinished, as far as is known."""
        if ask.of == 1:
            return True
        return bool(
            await self._engine.client.sismember(self._keys.own(f"left:{ask.message}"), str(ask.number))
        )

    def _shard(self, url: str) -> int:
        return self._keys.shard(split(url)[0])

    def _key(self, url: str) -> str:
        return f"{self._keys.queue(self._shard(url))[0]}asks"


def _columns(wanted: Sequence[WantedURL]) -> dict[str, Sequence[str | bytes]]:
    targets = [split(each.url) for each in wanted]
    # at depth 1, because a seed would open the scope and pass the address guard
    candidates = [
        Candidate(host, path, None, each.ask.level, depth=1, extra=each.extra, is_fixed=each.extra is None)
        for (host, path), each in zip(targets, wanted, strict=True)
    ]
    return {
        "host": [host for host, _ in targets],
        "path": [path for _, path in targets],
        "entry": [candidate.entry() for candidate in candidates],
        "key": [each.ask.key for each in wanted],
        "record": [each.ask.encoded() for each in wanted],
        "again": ["1" if each.again else "" for each in wanted],
    }
