"""The list of the sealed runs of one crawl, in the engine, and look-ups in these runs."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import xxhash

from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.engine.replication import Command
from webcrawl.engine.scripts import script_call
from webcrawl.errors import RunDamaged, StoreError
from webcrawl.stores.group_commit import GroupCommit
from webcrawl.stores.objects.store import ObjectStore, open_store

if TYPE_CHECKING:
    from webcrawl.stores.sealed.runs import NearText, SealedRun

logger = logging.getLogger(__name__)

ATTEMPTS = 20
"""The most attempts to change the list of runs, which another worker may change at the same time."""
READ_SECONDS = 5.0
"""The seconds for which a worker uses the list that it has read. Entries stay in the engine for much longer after they
are listed, so each worker has them from the engine or from the list."""


ListedRun = tuple[str, int, int]
"""The name of a run, and its numbers of texts and payloads."""


@dataclass(slots=True)
class RunList:
    """The runs of a crawl, the oldest first, with their numbers of entries.

    `unused`: runs that were replaced, and when; an older checkpoint may still refer to them.
    """

    folder: str = ""
    runs: list[ListedRun] = field(default_factory=list)
    unused: list[tuple[str, float]] = field(default_factory=list)

    @classmethod
    def parse(cls, text: bytes) -> Self:
        """Parses what `encoded` returns; b"" is an empty list."""
        if not text:
            return cls()
        value: dict[str, Any] = json.loads(text)
        runs = [(name, texts, payloads) for name, texts, payloads in value["runs"]]
        return cls(value["folder"], runs, [(name, since) for name, since in value["unused"]])

    def put(self, run: ListedRun, replaced: Sequence[ListedRun], now: float) -> bool:
        """Puts a run in the place of `replaced`, or as the newest; returns False if these are not all in the list."""
        if not replaced:
            self.runs.append(run)
            return True
        if replaced[0] not in self.runs:
            return False
        at = self.runs.index(replaced[0])
        if self.runs[at : at + len(replaced)] != list(replaced):
            return False
        self.runs[at : at + len(replaced)] = [run]
        self.unused += [(name, now) for name, _, _ in replaced]
        return True

    def drop(self, name: str, now: float) -> ListedRun | None:
        """Takes a run out of the list, and returns it; None if the list does not have it."""
        run = next((run for run in self.runs if run[0] == name), None)
        if run is not None:
            self.runs.remove(run)
            self.unused.append((name, now))
        return run

    def encoded(self) -> bytes:
        return json.dumps({"folder": self.folder, "runs": self.runs, "unused": self.unused}).encode()


class SealedFirst(NamedTuple):
    """The nearest first text in runs: the number of bits that differ, and its URL. `is_own`: it is the page's own."""

    bits: int
    url: str
    is_own: bool


class _TextQuery(NamedTuple):
    simhash: int
    url: str
    distance: int


class SealedDuplicates:
    """The sealed runs of a crawl. `uri` names the object store, `folder` is for this machine's copies.

    A store that is unavailable is not an error: the texts and payloads there are not recognized meanwhile.
    """

    def __init__(
        self,
        engine: Engine,
        keys: Keys,
        uri: str,
        object_stores: Mapping[str, str],
        folder: Path,
        *,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        self._engine = engine
        self._keys = keys
        self._uri = uri
        self._object_stores = object_stores
        self._folder = folder
        self._read_seconds = read_seconds
        self._store: ObjectStore | None = None
        self._opened: dict[str, SealedRun] = {}
        self._read_at = float("-inf")
        self._runs: list[SealedRun] = []
        self._failure = ""
        self._suspects: set[str] = set()
        """Runs in whose local copies a look-up came upon damage."""
        self._texts: GroupCommit[_TextQuery, SealedFirst | None] = GroupCommit(self._look_up_texts)
        self._payloads: GroupCommit[bytes, bytes | None] = GroupCommit(self._look_up_payloads)
        self._urls: GroupCommit[str, bool] = GroupCommit(self._look_up_urls)
        self._listing = asyncio.Lock()

    @property
    def key(self) -> str:
        """The key of the list."""
        return self._keys.own("runs")

    @property
    def outdated(self) -> str:
        """The key of the hashes of URLs whose sealed texts are outdated, though no newer text is indexed."""
        return self._keys.own("outdated")

    async def store(self) -> ObjectStore:
        """Opens the store."""
        if self._store is None:
            self._store = await asyncio.to_thread(
                open_store, self._uri, "FRONTIER_SPILL_URI", self._object_stores
            )
        return self._store

    async def listed(self) -> tuple[RunList, bytes]:
        """Returns the list in the engine, and its text, which `replace` needs."""
        text = await self._engine.client.get(self.key) or b""
        return RunList.parse(text), text

    async def replace(self, before: bytes, after: RunList) -> bool:
        """Replaces the list; returns False if another worker has changed it."""
        call = script_call("set_runs", [self.key], before=before, after=after.encoded())
        return bool(await self._engine.run(call))

    async def open(self, names: Sequence[str]) -> list[SealedRun]:
        """Returns the runs with these names, which are copied to this machine; raises StoreError."""
        # late, because most crawls have no runs: NumPy takes 0.1 s and 10 MB
        from webcrawl.stores.sealed.runs import SealedRun

        store = await self.store()
        for name in names:
            if name not in self._opened:
                self._opened[name] = await asyncio.to_thread(SealedRun, store, name, self._folder)
        return [self._opened[name] for name in names]

    async def verified(self, names: Sequence[str]) -> list[SealedRun]:
        """Returns the runs with these names after all of their tables were read; raises StoreError.

        Damaged copies on this machine are copied again.
        """
        runs = await self.open(names)
        for number, run in enumerate(runs):
            try:
                await asyncio.to_thread(run.verify)
            except RunDamaged as error:
                if not run.is_copied:
                    raise
                logger.warning("%s is copied to this machine again: %s", run.name, error)
                await self._drop_copy(run.name)
                [runs[number]] = await self.open([run.name])
        return runs

    async def drop(self, name: str) -> ListedRun:
        """Takes a run out of the list, whatever its state, and returns it; raises StoreError if it is not listed.

        Its files are deleted as those of a merged run.
        """
        for _ in range(ATTEMPTS):
            listed, before = await self.listed()
            run = listed.drop(name, time.time())
            if run is None:
                raise StoreError(f"crawl {self._keys.crawl!r} has no sealed run {name!r}")
            if await self.replace(before, listed):
                return run
        raise StoreError("a worker changes the list of sealed runs all the time: try again")

    async def _drop_copy(self, name: str) -> None:
        self._opened.pop(name, None)
        await asyncio.to_thread(shutil.rmtree, self._folder / name, ignore_errors=True)

    async def current(self) -> list[SealedRun]:
        """Returns the runs of the crawl, the oldest first, from a list of the last READ_SECONDS."""
        if time.monotonic() - self._read_at > self._read_seconds:
            async with self._listing:
                began = time.monotonic()
                if began - self._read_at <= self._read_seconds:
                    return self._runs
                listed, _ = await self.listed()
                self._runs = await self._readable([name for name, _, _ in listed.runs])
                self._read_at = began
        return self._runs

    async def _readable(self, names: Sequence[str]) -> list[SealedRun]:
        """Returns the runs that can be opened; logs an error for the others."""
        for name in self._opened.keys() - names:
            await self._drop_copy(name)
        suspects, self._suspects = self._suspects, set()
        runs = []
        for name in names:
            try:
                runs += await (self.verified([name]) if name in suspects else self.open([name]))
            except StoreError as error:
                self._log(error)
        return runs

    def _log(self, error: StoreError, run: SealedRun | None = None) -> None:
        is_damaged = isinstance(error, RunDamaged)
        if is_damaged and run is not None and run.is_copied:
            self._suspects.add(run.name)
        if str(error) != self._failure:
            self._failure = str(error)
            advice = "; `scrapy runs` checks all runs, and drops one" if is_damaged else ""
            logger.error("%s: copies of the texts and payloads there are not recognized%s", error, advice)

    async def near(self, simhash: int, url: str, distance: int) -> SealedFirst | None:
        """Returns the nearest text of another page, or the page's own text if it is equal; None if there is neither."""
        return await self._texts.put(_TextQuery(simhash, url, distance)) if await self.current() else None

    async def payload(self, digest: bytes) -> bytes | None:
        """Returns time, URL and reading of the first page with a digest; None without one."""
        return await self._payloads.put(digest) if await self.current() else None

    async def end_text(self, url: str) -> None:
        """Records that the sealed texts of a URL, if there are any, are outdated."""
        if await self.current() and await self._urls.put(url):
            await self._engine.change(self.outdated, "SADD", url_digest(url.encode()))

    async def _look_up_texts(self, queries: list[_TextQuery]) -> list[SealedFirst | None]:
        runs, simhashes = await self.current(), [query.simhash for query in queries]
        near = await asyncio.to_thread(self._near, runs, simhashes, queries[0].distance)
        current = await self._current_texts([(text.url, text.simhash) for text in near]) if near else []
        firsts: list[SealedFirst | None] = [None] * len(queries)
        for text, is_current in zip(near, current, strict=True):
            if not is_current:
                continue
            before, is_own = firsts[text.query], text.url == queries[text.query].url.encode()
            if is_own and not text.bits:
                firsts[text.query] = SealedFirst(0, queries[text.query].url, True)
            elif not is_own and (before is None or not before.is_own and text.bits < before.bits):
                firsts[text.query] = SealedFirst(text.bits, text.url.decode(), False)
        return firsts

    def _near(self, runs: Sequence[SealedRun], simhashes: Sequence[int], distance: int) -> list[NearText]:
        """Returns the near texts of all runs that no newer run declares outdated, those of older runs first."""
        near: list[NearText] = []
        for number, run in enumerate(runs):
            try:
                texts = run.near(simhashes, distance)
            except StoreError as error:
                self._log(error, run)
                continue
            newer = runs[number + 1 :]
            near += [text for text in texts if not any(other.supersedes(text.url) for other in newer)]
        return near

    async def _current_texts(self, texts: Sequence[tuple[bytes, int]]) -> list[bool]:
        """Returns for URLs with SimHashes whether each text is current: the engine has no newer text, and no end."""
        members = [url_digest(url) for url, _ in texts]
        keys = [self._keys.text(member[:6]) for member in members]
        ended, *notes = await self._engine.change_all(
            [
                Command(self.outdated, ("SMISMEMBER", self.outdated, *members)),
                *(Command(key, ("HGET", key, member[:6])) for key, member in zip(keys, members, strict=True)),
            ]
        )
        return [
            not over and (not note or note[:8] == simhash.to_bytes(8, "big"))
            for over, note, (_, simhash) in zip(ended, notes, texts, strict=True)
        ]

    async def _look_up_payloads(self, digests: list[bytes]) -> list[bytes | None]:
        runs = await self.current()
        return await asyncio.to_thread(self._payload_firsts, runs, digests)

    def _payload_firsts(self, runs: Sequence[SealedRun], digests: list[bytes]) -> list[bytes | None]:
        firsts: list[bytes | None] = [None] * len(digests)
        for run in runs:  # a newer one overwrites
            try:
                for number, first in run.payload_firsts(digests).items():
                    firsts[number] = first
            except StoreError as error:
                self._log(error, run)
        return firsts

    async def _look_up_urls(self, urls: list[str]) -> list[bool]:
        import numpy as np

        from webcrawl.stores.sealed.runs import may_have, url_number

        numbers = np.array([url_number(url.encode()) for url in urls], np.uint64)
        return [bool(has) for has in may_have(await self.current(), numbers)]

    async def clear(self) -> None:
        """Deletes the runs of a crawl that is cleared; logs a warning if that fails."""
        listed, _ = await self.listed()
        try:
            if listed.folder:
                await asyncio.to_thread((await self.store()).delete_folder, listed.folder)
        except StoreError as error:
            logger.warning(
                "The sealed runs in %s of %s were not deleted: %s", listed.folder, self._uri, error
            )


def url_digest(url: bytes) -> bytes:
    """Returns the hash of a URL, which begins with `webcrawl.stores.duplicate_index.url_id`."""
    return xxhash.xxh3_64_digest(url)
