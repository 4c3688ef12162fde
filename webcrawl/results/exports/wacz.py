"""Packs the archive of a crawl into one WACZ file, for replay in a browser.

Its revisit records may refer to payloads that other crawls have archived; these are packed too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from webcrawl.config import StoreConfig
from webcrawl.config.program import VERSION
from webcrawl.documents.document import Document
from webcrawl.documents.html.facts import describe, is_html
from webcrawl.documents.html.timed_parse import BlockingTimedParser
from webcrawl.errors import StoreError, StoreUnavailable
from webcrawl.stores.archive import Records
from webcrawl.stores.bodies import Bodies
from webcrawl.stores.group_commit import batched
from webcrawl.stores.locations import Row, location_of, location_of_body, location_with_body
from webcrawl.stores.metadata import Metadata
from webcrawl.stores.objects.store import ObjectStore, open_store
from webcrawl.stores.warc.cdxj import REVISIT
from webcrawl.stores.warc.files import (
    ROBOTSTXT,
    WARC,
    StoredFile,
    WarcLocation,
    crawl_of,
    index_name,
    prefix_of,
)
from webcrawl.stores.warc.wacz import (
    REFERRED,
    Capture,
    Contents,
    Describe,
    Referred,
    ReferredRecord,
    check_index,
    write,
)

_AT_ONCE = 500


def check_archive(stores: StoreConfig) -> None:
    """Raises StoreError if the archive is a folder that does not exist, because opening the archive would create it."""
    folder = open_store(stores.pages, "STORE_URI", stores.object_stores, check=False).folder
    if folder is not None and not folder.is_dir():
        raise StoreError(f"nothing is stored yet: the folder {folder} of STORE_URI does not exist")


def pack(
    store: ObjectStore,
    name: str,
    warcs: Sequence[tuple[StoredFile, StoredFile]],
    describe: Describe,
    title: str,
    referred: Referred | None = None,
) -> Contents:
    """Writes the file `name` into a store: the WARC files with their indexes, and a list of pages.

    With `referred`, it also has the records of other crawls to which the revisits of this crawl refer.
    """
    with store.workspace() as folder:
        software = f"webcrawl/{VERSION}"
        packed = write(folder / name, warcs, describe, title=title, software=software, referred=referred)
        store.move_file(name, folder / name)
    return packed


class CrawlFiles(NamedTuple):
    """The finished WARC files of a crawl with their indexes, and the reasons by which others are left out."""

    crawl: str
    warcs: list[tuple[StoredFile, StoredFile]]
    left_out: dict[str, str]


def of_crawl(archives: Iterable[Records], named: str | None, default: str, store_name: str) -> CrawlFiles:
    """Returns the files of the named, only or default crawl; raises StoreError when no archive has a sound one."""
    files = {file.name: file for archive in archives for file in archive.files()}
    crawls = {crawl for name in files if name.endswith(WARC) and (crawl := crawl_of(name))}
    crawl = named or (next(iter(crawls)) if len(crawls) == 1 else default)
    chosen, left_out = list[tuple[StoredFile, StoredFile]](), dict[str, str]()
    for name in sorted(files):
        if name.endswith(WARC) and crawl_of(name) == prefix_of(crawl):
            if reason := _damage(files[name], files.get(index_name(name))):
                left_out[name] = reason
            else:
                chosen.append((files[name], files[index_name(name)]))
    if left_out and not chosen:
        raise StoreError("; ".join(f"{name} is left out: {reason}" for name, reason in left_out.items()))
    if not chosen:
        others = ", ".join(sorted(crawls)) or "none"
        raise StoreError(
            f"no finished WARC file of crawl {crawl!r} is in {store_name}; crawls there: {others}"
        )
    return CrawlFiles(crawl, chosen, left_out)


def _damage(warc: StoredFile, index: StoredFile | None) -> str:
    """Returns why a WARC file cannot be packed, or nothing."""
    if index is None:
        return "it has no index: it may not be finished, or not be stored yet"
    try:
        check_index(warc, index)
    except StoreUnavailable:
        raise
    except StoreError as error:
        return str(error)
    return ""


class PageTitles:
    """Selects the captures that are pages, and adds their titles from the metadata database."""

    def __init__(self, bodies: Bodies, metadata: Metadata | None, part: str | None) -> None:
        """`part`: that of the text that pages get, "main" or "page"; None for no text."""
        self._bodies = bodies
        self._metadata = metadata
        self._part = part
        self._parser = BlockingTimedParser()
        self.problems: dict[str, str] = {}
        """The pages whose bodies could not be read, with the reasons."""

    def __call__(self, captures: Sequence[Capture]) -> Iterable[dict[str, Any] | None]:
        rows = self._metadata.get_many([capture.url for capture in captures]) if self._metadata else {}
        return self._each(captures, rows)

    def _each(
        self, captures: Sequence[Capture], rows: dict[str, dict[str, Any]]
    ) -> Iterator[dict[str, Any] | None]:
        for capture in captures:
            row = rows.get(capture.url, {})
            # a fetch of robots.txt may end at an HTML page
            is_robotstxt = capture.location.file.endswith(ROBOTSTXT)
            if is_robotstxt or not is_html(row.get("mime_type") or capture.mime_type):
                yield None
                continue
            facts = {"title": row["title"]} if row.get("title") else {}
            if self._part and (location := self._location(capture, row)) is not None:
                try:
                    facts["text"] = self._text_of(capture, location, row)
                except StoreUnavailable:
                    raise
                except StoreError as error:
                    self.problems[capture.url] = str(error)
            yield facts

    def _location(self, capture: Capture, row: dict[str, Any]) -> WarcLocation | None:
        """Returns the location of the body in the archive; None if it is not known."""
        if capture.mime_type != REVISIT and capture.location.file != REFERRED:
            return capture.location
        if self._metadata is None or row.get("digest") != capture.digest:
            return None
        return location_of_body(row, self._metadata, self._bodies)

    def _text_of(self, capture: Capture, location: WarcLocation, row: dict[str, Any]) -> str:
        _, body = self._bodies.read(location)
        document = Document(body, "text/html", row.get("charset"), capture.url)
        self._parser.parse(document)
        facts = describe(document)
        return facts.text if self._part == "page" else facts.main_text or facts.text


class ReferredRecords:
    """The records of the archive that have the payloads of revisits, by the rows of a metadata database.

    A call yields the records that are not in the files named `packed`, each once. A payload that is not archived any
    more is left out.
    """

    def __init__(self, archive: Records, bodies: Bodies, metadata: Metadata) -> None:
        self._archive = archive
        self._bodies = bodies
        self._metadata = metadata

    def __call__(self, revisits: Iterable[Capture], packed: frozenset[str]) -> Iterator[ReferredRecord]:
        seen: set[WarcLocation] = set()
        for captures in batched(revisits, _AT_ONCE):
            for capture, location in zip(captures, self._locations(captures), strict=True):
                if location is None or location.file in packed or location in seen:
                    continue
                seen.add(location)
                try:
                    record = self._bodies.head(location)
                except StoreUnavailable:
                    raise
                except StoreError:
                    continue
                yield ReferredRecord(record, self._archive.chunks(location), capture.status)

    def _locations(self, captures: Sequence[Capture]) -> Iterator[WarcLocation | None]:
        rows = self._metadata.payload_rows(list({capture.url for capture in captures}))
        copied = {row["duplicate_of"] for row in rows.values() if row["duplicate_kind"] == "exact"}
        firsts = rows | self._metadata.payload_rows([url for url in copied if url not in {None, *rows}])
        for capture in captures:
            yield self._location(capture, rows.get(capture.url), firsts)

    def _location(self, capture: Capture, row: Row | None, firsts: Mapping[str, Row]) -> WarcLocation | None:
        location = (
            location_of(row, firsts.get) if row and row["digest"] == capture.digest else capture.location
        )
        try:
            return location and location_with_body(location, self._bodies.head, self._metadata.history)
        except StoreUnavailable:
            raise
        except StoreError:
            return None
