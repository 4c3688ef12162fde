"""Who waits for which URL of the live lane. The engine keeps this beside the URL's queue.

A URL is queued when somebody asks for it for whom nobody else waits, in the same step of the engine. So a URL that is
asked for by many is fetched once, and all get its event. A redirect moves those who wait to its target.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgpack

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.replication import Command
from webcrawl.engine.scripts import script_call
from webcrawl.frontier.entry import DEFAULT_LEVEL, LEVELS, Candidate, returned
from webcrawl.stores.group_commit import GroupCommit
from webcrawl.urls.canonical import split

_DAY = 24 * 3600
_YES = ord("1")
"""The character of a verdict, as a byte."""


@dataclass(frozen=True, slots=True)
class LiveAsk:
    """A URL of a message.

    message  ID of the message in the stream
    number   of the URL in the message, and `of` how many
    url      as asked
    put      Unix time at which the message was put, by the clock of the engine
    chain    the URLs that have redirected so far, the asked one first, normalized
    meta     JSON, "" for none
    page     the page for which a resource is fetched; the message does not wait for it, and `of` is 0
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
    page: str = ""

    @property
    def key(self) -> str:
        """The name of the ask among those who wait for a URL."""
        return f"{self.message} {self.number}{' of a page' if self.page else ''}"

    def moved(self, url: str) -> LiveAsk:
        """Returns the ask after this URL has redirected."""
        return replace(self, chain=(*self.chain, url))

    def along(self, chain: Iterable[str]) -> LiveAsk:
        """Returns the ask after these URLs have redirected, in this order."""
        return replace(self, chain=(*self.chain, *chain))

    def of_related(self, page: str, url: str) -> LiveAsk:
        """Returns the ask for a resource of a page."""
        return replace(self, of=0, url=url, page=page, level=LEVELS - 1, related=(), render=False, chain=())

    def encoded(self) -> bytes:
        return bytes(msgpack.packb([getattr(self, name) for name in _FIELDS]))

    @classmethod
    def decoded(cls, record: bytes) -> LiveAsk:
        values = dict(zip(_FIELDS, msgpack.unpackb(record), strict=True))
        return cls(**values | {name: tuple(values[name]) for name in ("related", "chain")})


_FIELDS = tuple(LiveAsk.__dataclass_fields__)


class WantedURL(NamedTuple):
    """A normalized URL, who asks for it, and the `extra` of its queue entry.

    `again`: queue it although others wait for it, because the frontier may not have it. The worker that fetches it
    looks first whether it was stored meanwhile.
    """

    url: str
    ask: LiveAsk
    extra: bytes | None = None
    again: bool = False


class Asks:
    """The asks of one crawl. Methods may raise the errors of UNAVAILABLE, and may be repeated.

    Calls of the same time share their round trips.
    """

    def __init__(self, engine: Engine, keys: Keys) -> None:
        self._engine = engine
        self._keys = keys
        self._additions: GroupCommit[WantedURL, bool] = GroupCommit(self._add)
        self._reads: GroupCommit[str, list[LiveAsk]] = GroupCommit(self._read)
        self._removals: GroupCommit[tuple[str, LiveAsk], bool] = GroupCommit(self._remove)

    async def add(self, wanted: Iterable[WantedURL]) -> bool:
        """Adds asks; returns whether a URL was queued."""
        return any(await asyncio.gather(*map(self._additions.put, wanted)))

    async def of(self, url: str) -> list[LiveAsk]:
        """Returns who waits for a normalized URL."""
        return await self._reads.put(url)

    async def remove(self, url: str, asks: Iterable[LiveAsk]) -> bool:
        """Removes asks for a normalized URL; returns whether others wait for it still."""
        return all(await asyncio.gather(*(self._removals.put((url, ask)) for ask in asks)))

    async def _add(self, wanted: list[WantedURL]) -> list[bool]:
        groups = self._keys.by_shard(wanted, lambda each: split(each.url)[0])
        calls = [
            script_call("ask", self._keys.queue(shard), ask=_columns(group))
            for shard, group in groups.items()
        ]
        queued = {
            id(each): verdict == _YES
            for group, reply in zip(groups.values(), await self._engine.run_all(calls), strict=True)
            for each, verdict in zip(group, reply, strict=True)
        }
        return [queued[id(each)] for each in wanted]

    async def _read(self, urls: list[str]) -> list[list[LiveAsk]]:
        keys = map(self._key, urls)
        commands = [Command(key, ("HGET", key, url)) for key, url in zip(keys, urls, strict=True)]
        return [_decoded(known) for known in await self._engine.change_all(commands)]

    async def _remove(self, pairs: list[tuple[str, LiveAsk]]) -> list[bool]:
        groups = self._keys.by_shard(pairs, lambda pair: split(pair[0])[0])
        calls = [
            script_call(
                "unask",
                self._keys.queue(shard)[:1],
                ask={"url": [url for url, _ in group], "key": [ask.key for _, ask in group]},
            )
            for shard, group in groups.items()
        ]
        replies = await self._engine.run_all(calls)
        others = {
            id(pair): verdict == _YES
            for group, reply in zip(groups.values(), replies, strict=True)
            for pair, verdict in zip(group, reply, strict=True)
        }
        return [others[id(pair)] for pair in pairs]

    async def of_host(self, host: str) -> dict[str, list[LiveAsk]]:
        """Returns who waits for each URL of a host."""
        waiting: dict[str, list[LiveAsk]] = {}
        async for url, known in self._engine.client.hscan_iter(self._key(host + "/")):
            if url.startswith(host.encode() + b"/"):
                waiting[url.decode()] = _decoded(known)
        return waiting

    async def begin(self, message: str, of: int) -> None:
        """Notes that a message has several URLs."""
        key = self._keys.own(f"left:{message}")
        await self._engine.change(key, "SADD", *map(str, range(of)))
        await self._engine.change(key, "EXPIRE", 7 * _DAY)

    async def finish(self, ask: LiveAsk) -> bool:
        """Notes that a URL of a message is finished; returns whether the message can be acknowledged now."""
        if ask.of <= 1:
            return ask.of == 1
        key = self._keys.own(f"left:{ask.message}")
        await self._engine.change(key, "SREM", str(ask.number))
        return not await self._engine.client.exists(key)

    async def is_left(self, ask: LiveAsk) -> bool:
        """Whether a URL of a message with several URLs is not finished."""
        key = self._keys.own(f"left:{ask.message}")
        return bool(await self._engine.client.sismember(key, str(ask.number)))

    async def has_begun(self, message: str) -> bool:
        """Whether `begin` was called for a message, and not all of its URLs are finished."""
        return bool(await self._engine.client.exists(self._keys.own(f"left:{message}")))

    def _shard(self, url: str) -> int:
        return self._keys.shard(split(url)[0])

    def _key(self, url: str) -> str:
        return f"{self._keys.queue(self._shard(url))[0]}asks"


def _decoded(known: bytes | None) -> list[LiveAsk]:
    # a name of an ask is text; a record is binary
    asks: Mapping[bytes, bytes] = msgpack.unpackb(known, raw=True) if known else {}
    return [LiveAsk.decoded(record) for record in asks.values()]


def _columns(wanted: Sequence[WantedURL]) -> dict[str, Sequence[str | bytes]]:
    targets = [split(each.url) for each in wanted]
    # at depth 1, because a seed would open the scope and pass the address guard
    entries = [
        Candidate(
            host, path, None, each.ask.level, depth=1, extra=each.extra, is_fixed=each.extra is None
        ).entry()
        for (host, path), each in zip(targets, wanted, strict=True)
    ]
    return {
        "host": [host for host, _ in targets],
        "path": [path for _, path in targets],
        "entry": [
            returned(entry) if each.again else entry for each, entry in zip(wanted, entries, strict=True)
        ],
        "key": [each.ask.key for each in wanted],
        "record": [each.ask.encoded() for each in wanted],
        "again": ["1" if each.again else "" for each in wanted],
    }
