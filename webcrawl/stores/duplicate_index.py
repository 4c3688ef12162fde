"""The index of duplicates: payload digests and SimHashes of all workers' pages, in the engine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from operator import itemgetter
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import xxhash

from webcrawl.documents.simhash_blocks import BITS, blocks, distance as bits_between
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import URL_ID_BYTES, Keys
from webcrawl.engine.replication import Command
from webcrawl.engine.scripts import Call, script_call
from webcrawl.errors import EngineFull
from webcrawl.stores.group_commit import PAUSE, GroupCommit

if TYPE_CHECKING:
    from webcrawl.stores.sealed.run_list import SealedDuplicates  # NumPy is slow to import

_SIMHASH = 8
_ENTRY = Struct(f">Q{URL_ID_BYTES}s")
ENTRY = _ENTRY.size
"""The bytes of an entry in a block: the SimHash of a text, and the ID of its URL."""
MOST_TEXTS = 4_096
"""The most texts of a block. Further texts are found only by their other blocks."""
_CANDIDATES = 16
_STORED_WITHIN = 300
"""The seconds until another page replaces a first page that was not stored, because its worker may have died."""


class FirstPage(NamedTuple):
    """The earlier page with the same payload: its URL, fetch time and `Page.read_as`.

    The time is None until the page is stored (`kept`). Until then it may still be lost, so copies must not refer to it.
    """

    url: str
    fetched_at: datetime | None
    reading: str


class DuplicateIndex:
    """The first URL of every payload and every text of one crawl.

    An engine without memory for new entries is not an error: the page is not recorded, and its copies are not
    recognized. Repeating a call changes nothing. Calls that arrive while a call is in flight are sent as a batch, which
    a busy worker collects for a moment.
    """

    def __init__(self, engine: Engine, keys: Keys, sealed: SealedDuplicates | None = None) -> None:
        """`sealed`: the older payloads and texts, which are no longer in the engine."""
        self._engine = engine
        self._keys = keys
        self._sealed = sealed
        self._calls: GroupCommit[list[Call], list[Any]] = GroupCommit(self._run_lists, pause=PAUSE)

    async def same_payload(
        self, digest: bytes, url: str, fetched_at: datetime, reading: str = ""
    ) -> FirstPage | None:
        """Returns the earlier page with this digest; None if `url` is the first."""
        key, mine = self._keys.checksum(digest), _first_entry(url, fetched_at, reading)
        first = await self._sealed.payload(digest) if self._sealed else None
        if first is None:
            try:
                call = script_call("claim_payload", [key], checksum=digest, page=mine, seconds=_STORED_WITHIN)
                [first] = await self._calls.put([call])
            except EngineFull:
                first = await self._engine.client.hget(key, digest) or mine.encode()
        seconds, other, *readings = first.decode().split(" ")
        if other == url:
            return None
        time = None if seconds[0] == "?" else datetime.fromtimestamp(float(seconds), UTC)
        return FirstPage(other, time, "".join(readings))

    async def kept(self, digest: bytes, url: str, fetched_at: datetime, reading: str = "") -> None:
        """Records that this page is stored: if it is the first, its copies may refer to it."""
        mine = _first_entry(url, fetched_at, reading)
        call = script_call("confirm_payload", [self._keys.checksum(digest)], checksum=digest, page=mine)
        await self._calls.put([call])

    async def forget_payload(self, digest: bytes, url: str) -> None:
        """Forgets `url` as the first with this digest, because it is not archived: the next page becomes the first."""
        key = self._keys.checksum(digest)
        first = await self._engine.client.hget(key, digest)
        if first is not None and first.split(b" ")[1] == url.encode():
            await self._engine.change(key, "HDEL", digest)

    async def near_text(self, simhash: int, url: str, distance: int) -> str | None:
        """Returns the nearest earlier URL whose SimHash differs in at most `distance` bits; None if there is none.

        Only a `url` without a predecessor is recorded, so that all copies point to the same first page. A new text of a
        URL replaces its old text.
        """
        entry = simhash.to_bytes(_SIMHASH, "big") + url_id(url)
        note = entry[:_SIMHASH] + url.encode()
        try:
            *held, before = await self._calls.put(
                [
                    *(
                        script_call("index_text", keys, text=entry, most=MOST_TEXTS * ENTRY)
                        for keys in self._blocks_together(entry, distance)
                    ),
                    script_call(
                        "note_text",
                        [self._keys.text(entry[_SIMHASH:])],
                        url_id=entry[_SIMHASH:],
                        text=note,
                    ),
                ]
            )
        except EngineFull:
            held, before = await self._held(entry, distance), None
        first, is_sealed = await self._first_of_all(held, entry, url, distance)
        gone = []
        if before and before[:_SIMHASH] != note[:_SIMHASH]:
            gone.append(before[:_SIMHASH] + entry[_SIMHASH:])
        if first is not None or is_sealed and not before:
            gone.append(entry)
            key = self._keys.text(entry[_SIMHASH:])
            await self._engine.change_all([Command(key, ("HDEL", key, entry[_SIMHASH:]))])
        if gone:
            await self._calls.put(
                [
                    script_call("unindex_text", keys, text=text)
                    for text in gone
                    for keys in self._blocks_together(text, distance)
                ]
            )
        if first is not None and self._sealed:
            await self._sealed.end_text(url)
        return first

    async def near_copy(self, simhash: int, first: str, distance: int) -> str | None:
        """Returns the result of `near_text` for `first`, whose text a copy has, without recording the text."""
        entry = simhash.to_bytes(_SIMHASH, "big") + url_id(first)
        return (await self._first_of_all(await self._held(entry, distance), entry, first, distance))[0]

    async def _first_of_all(
        self, held: Sequence[list[bytes]], entry: bytes, url: str, distance: int
    ) -> tuple[str | None, bool]:
        """Returns the nearest first page in the blocks and in sealed runs, and whether the page itself is sealed.

        Of pages at the same distance, a sealed one is older. A page that is sealed with this text has no first page.
        """
        earlier = earlier_texts([block for reply in held for block in reply], entry, distance)
        bits, first = await self._first(earlier, entry) if earlier else (BITS, None)
        sealed = await self._sealed.near(_simhash(entry), url, distance) if self._sealed else None
        if sealed is None:
            return first, False
        if sealed.is_own:
            return None, True
        return (sealed.url if sealed.bits <= bits else first), False

    def _blocks_together(self, entry: bytes, distance: int) -> list[list[str]]:
        """Returns the keys of a text's blocks in groups that a script may use together: on a cluster, single keys."""
        keys = self._block_keys(entry, distance)
        return [[key] for key in keys] if self._engine.is_cluster else [keys]

    def _block_keys(self, entry: bytes, distance: int) -> list[str]:
        return [self._keys.like(block) for block in blocks(_simhash(entry), distance)]

    async def _held(self, entry: bytes, distance: int) -> list[list[bytes]]:
        """Returns the entries of the blocks of a text, without adding to them."""
        commands = [Command(key, ("GET", key)) for key in self._block_keys(entry, distance)]
        return [[reply or b"" for reply in await self._engine.change_all(commands)]]

    async def _first(self, texts: Sequence[bytes], entry: bytes) -> tuple[int, str | None]:
        """Returns the first of these texts that still belongs to a URL: its distance from `entry`, and the URL."""
        keys = [self._keys.text(text[_SIMHASH:]) for text in texts]
        commands = [
            Command(key, ("HGET", key, text[_SIMHASH:])) for key, text in zip(keys, texts, strict=True)
        ]
        for text, note in zip(texts, await self._engine.change_all(commands), strict=True):
            if note and note[:_SIMHASH] == text[:_SIMHASH]:
                return bits_between(_simhash(text), _simhash(entry)), str(note[_SIMHASH:].decode())
        return BITS, None

    async def _run_lists(self, lists: list[list[Call]]) -> list[list[Any] | Exception]:
        """Runs the calls of many pages together; a full engine fails only calls that need memory."""
        replies = iter(await self._engine.run_all([call for calls in lists for call in calls], some=True))
        return [_all_of(list(islice(replies, len(calls)))) for calls in lists]


def _all_of(replies: list[Any]) -> list[Any] | Exception:
    """Returns the replies to the calls of a page, or the first error among them."""
    return next((reply for reply in replies if isinstance(reply, Exception)), replies)


def _simhash(entry: bytes) -> int:
    return int.from_bytes(entry[:_SIMHASH], "big")


def _first_entry(url: str, fetched_at: datetime, reading: str) -> str:
    return f"{fetched_at.timestamp():.6f} {url} {reading}".rstrip()


def earlier_texts(held: Sequence[bytes], entry: bytes, distance: int) -> list[bytes]:
    """Returns the entries of other URLs before `entry` that differ in at most `distance` bits, the nearest first.

    `held` has the contents of its blocks in order. On a cluster, two simultaneous texts may each precede the other in
    some block: the first block that they share decides which was earlier.
    """
    simhash = _simhash(entry)
    mine = blocks(simhash, distance)
    ranked: list[tuple[int, bytes]] = []
    for number, texts in enumerate(held):
        # most blocks have few texts, for which Python is faster than NumPy
        earlier = _ENTRY.iter_unpack(texts[: _entry_offset(texts, entry)])
        near = [
            (bits, other, page)
            for other, page in earlier
            if (bits := (other ^ simhash).bit_count()) <= distance
        ]
        near.sort(key=itemgetter(0))
        for bits, other, page in near[: 2 * _CANDIDATES]:
            theirs = blocks(other, distance)
            shared = [a == b for a, b in zip(mine, theirs, strict=True)].index(True)
            if shared == number and page != entry[_SIMHASH:]:
                ranked.append((bits, _ENTRY.pack(other, page)))
    ranked.sort(key=itemgetter(0))
    return [other for _, other in ranked[:_CANDIDATES]]


def _entry_offset(texts: bytes, entry: bytes) -> int:
    """Returns the offset of `entry`; the length of `texts` if it is missing."""
    offset = texts.find(entry)
    while offset > 0 and offset % ENTRY:
        offset = texts.find(entry, offset + 1)
    return len(texts) if offset < 0 else offset


def url_id(url: str) -> bytes:
    """Returns 48 bits of the hash of a URL. Among 10 million URLs, two collide with probability 1/6: one is lost."""
    return xxhash.xxh3_64_digest(url.encode("utf-8", "surrogatepass"))[:URL_ID_BYTES]
