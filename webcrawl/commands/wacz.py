"""`scrapy wacz`: packs the archive of a crawl into a single file for replay in a browser."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from webcrawl.config import read
from webcrawl.crawler.command import OpenedCrawlCommand, flag, option
from webcrawl.documents.values import counted
from webcrawl.errors import StoreError
from webcrawl.opened import DEFAULT_CRAWL

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl
    from webcrawl.stores.archive import Records
    from webcrawl.stores.bodies import Bodies
    from webcrawl.stores.metadata import Metadata
    from webcrawl.stores.objects.store import ObjectStore
    from webcrawl.stores.warc.files import StoredFile
    from webcrawl.stores.warc.wacz import Capture, Contents, Describe


class Command(OpenedCrawlCommand):
    """Reads archive and metadata, also while crawls write to them; needs no engine."""

    needs_engine = False
    usage = "[options] -o <file.wacz or URI>"
    summary = "Pack a crawl into one file for replay"
    description = "Pack the WARC files of a crawl, their index and a list of pages into one file for replay"
    options = (
        option("-o --output", "the file to write, or the URI of one, such as s3://bucket/crawl.wacz"),
        option("--title", "title of the collection; by default the crawl's name"),
        flag("--text", "add the text of each page, for full-text search"),
        flag("--force", "replace an existing file"),
    )

    def crawl_id(self, args: list[str]) -> str | None:
        return args[0] if args else None

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.stores.archive import archive_to_read, robotstxt_to_read
        from webcrawl.stores.bodies import Bodies
        from webcrawl.stores.objects.registry import object_location, open_store

        if len(args) > 1 or not opts.output:
            raise UsageError(
                "give the file to write: -o file.wacz, and a crawl ID unless it is the default one"
            )
        parent, name = object_location(opts.output)
        if not name:
            raise UsageError(f"{opts.output} does not name a file")
        store = open_store(parent, "--output", opened.stores.object_stores)
        if store.size(name) is not None and not opts.force:
            raise StoreError(f"{store.uri(name)} exists: --force replaces it")
        _check_archive(opened)
        archive, robotstxt = archive_to_read(opened.stores), robotstxt_to_read(opened.stores)
        metadata = opened.metadata_if_any()
        if metadata is None:
            print("There is no metadata database: the list of pages has no titles.", file=sys.stderr)
        with metadata or nullcontext():
            named = read(self.settings, "CRAWL_ID")
            crawl, warcs = _of_crawl((archive, robotstxt), named, str(opened.stores.pages))
            describe = _Describe(Bodies(archive, opened.fetch), metadata, opts.text)
            packed = _pack(store, name, warcs, describe, opts.title or f"Crawl {crawl}")
        _report(packed, store, name)


def _check_archive(opened: OpenedCrawl) -> None:
    """Raises StoreError if the archive is a folder that does not exist, because opening the archive would create it."""
    from webcrawl.stores.objects.registry import open_store

    folder = open_store(opened.stores.pages, "STORE_URI", opened.stores.object_stores, check=False).folder
    if folder is not None and not folder.is_dir():
        raise StoreError(f"nothing is stored yet: the folder {folder} of STORE_URI does not exist")


def _pack(
    store: ObjectStore,
    name: str,
    warcs: Sequence[tuple[StoredFile, StoredFile]],
    describe: Describe,
    title: str,
) -> Contents:
    from webcrawl.config.version import VERSION
    from webcrawl.stores.warc import wacz

    with store.workspace() as folder:
        packed = wacz.write(folder / name, warcs, describe, title=title, software=f"webcrawl/{VERSION}")
        store.move_file(name, folder / name)
    return packed


def _report(packed: Contents, store: ObjectStore, name: str) -> None:
    size = store.size(name) or 0
    print(
        f"Wrote {counted(packed.records, 'exchange')}, with those of robots.txt, of "
        f"{counted(packed.files, 'WARC file')} to {store.uri(name)}: {size / 1e6:,.1f} MB. "
        f"Its list has {counted(packed.pages, 'HTML page')}."
    )
    if packed.without_body:
        print(
            f"Left out of the list: {counted(packed.without_body, 'page')} that answered 304 (unchanged). This crawl "
            "did not archive the body, so this file alone cannot replay them.",
            file=sys.stderr,
        )


def _of_crawl(
    archives: Iterable[Records], named: str | None, store_name: str
) -> tuple[str, list[tuple[StoredFile, StoredFile]]]:
    """Returns the named crawl, or the only crawl, and its finished WARC files with their indexes.

    Raises StoreError when no archive has such a file.
    """
    from webcrawl.stores.warc.files import WARC, crawl_of, index_name, prefix_of

    files = {file.name: file for archive in archives for file in archive.files()}
    crawls = {crawl for name in files if name.endswith(WARC) and (crawl := crawl_of(name))}
    crawl = named or (next(iter(crawls)) if len(crawls) == 1 else DEFAULT_CRAWL)
    chosen = [
        (files[name], files[index_name(name)])
        for name in sorted(files)
        # skip a file whose index is still being uploaded
        if name.endswith(WARC) and crawl_of(name) == prefix_of(crawl) and index_name(name) in files
    ]
    if not chosen:
        others = ", ".join(sorted(crawls)) or "none"
        raise StoreError(
            f"no finished WARC file of crawl {crawl!r} is in {store_name}; crawls there: {others}"
        )
    return crawl, chosen


class _Describe:
    """Selects the captures that are pages, and adds their titles from the metadata database."""

    def __init__(self, bodies: Bodies, metadata: Metadata | None, text: bool) -> None:
        from webcrawl.documents.html.timed_parse import BlockingTimedParser

        self._bodies = bodies
        self._metadata = metadata
        self._text = text
        self._parser = BlockingTimedParser()

    def __call__(self, captures: Sequence[Capture]) -> Iterable[dict[str, Any] | None]:
        rows = self._metadata.get_many([capture.url for capture in captures]) if self._metadata else {}
        return self._each(captures, rows)

    def _each(
        self, captures: Sequence[Capture], rows: dict[str, dict[str, Any]]
    ) -> Iterator[dict[str, Any] | None]:
        from webcrawl.documents.html.facts import is_html
        from webcrawl.stores.warc.cdxj import REVISIT
        from webcrawl.stores.warc.files import ROBOTSTXT

        for capture in captures:
            row = rows.get(capture.url, {})
            # a fetch of robots.txt may end at an HTML page
            is_robotstxt = capture.location.file.endswith(ROBOTSTXT)
            if is_robotstxt or not is_html(row.get("mime_type") or capture.mime_type):
                yield None
                continue
            facts = {"title": row["title"]} if row.get("title") else {}
            if self._text and capture.mime_type != REVISIT:
                facts["text"] = self._text_of(capture, row)
            yield facts

    def _text_of(self, capture: Capture, row: dict[str, Any]) -> str:
        from webcrawl.documents.document import Document
        from webcrawl.documents.html.facts import describe

        _, body = self._bodies.read(capture.location)
        document = Document(body, "text/html", row.get("charset"), capture.url)
        self._parser.parse(document)
        facts = describe(document)
        return facts.main_text or facts.text
