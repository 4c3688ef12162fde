"""`scrapy copies`: finds the pages with the text of a document, or with a part of it, or clusters of similar pages."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from webcrawl.commands.search import INDEX_FOLDER, index_folder, made_index
from webcrawl.crawler.command import StoresCommand, flag, option
from webcrawl.documents.values import counted
from webcrawl.errors import InvalidURL, StoreError, UnreadableDocument, printable
from webcrawl.urls.seeds import seed_url

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl
    from webcrawl.search.copies import Copy
    from webcrawl.search.searching import Search
    from webcrawl.stores.metadata import Metadata

_LEAST, _LEAST_SIMILAR = 10.0, 37.0
_ONE_DOCUMENT = ("limit", "json", "index")
_CLUSTERS_ONLY = ("output", "crawl", "force", "engine")
_LIMIT = 20
_DUCKDB = "duckdb"
_PASSAGES = 3
_LONGEST = 200


class Command(StoresCommand):
    """Reads the index and the stores; needs no engine, and sends no request."""

    usage = "[options] <file or URL of a page of the crawl>, or --clusters [<folder or URI with texts in Parquet> ...]"
    summary = "Find pages with a text, or clusters of pages"
    description = (
        "Find pages that have the text of a document, or a part of it, in the index of `scrapy search`; or put all "
        "pages with a stored text into clusters of near-duplicates"
    )
    options = (
        option(
            "--least",
            "the least share of the text that a page must have, by default 10; with --clusters the least share of "
            "common phrases of two pages, by default 37",
            type=float,
            metavar="PERCENT",
        ),
        option("--limit", "pages to print, by default 20", type=int),
        flag("--json", "print JSON lines, with all passages"),
        INDEX_FOLDER,
        flag(
            "--clusters", "write a table with the cluster of each page, from TEXT = parquet or these folders"
        ),
        option("-o --output", "with --clusters, folder or URI of the table; by default DATA_DIR/clusters"),
        option("--crawl", "with --clusters, only the texts of this crawl; by default those of all crawls"),
        flag("--force", "with --clusters, replace an existing table"),
        option("--engine", "with --clusters, duckdb or a master of Spark, as for `scrapy graph`"),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        if opts.least is not None and not 0 < opts.least <= 100:
            raise UsageError("--least takes a share from 0 to 100")
        if unused := [f"--{name}" for name in _unused(opts) if getattr(opts, name, None)]:
            with_clusters = "takes no" if opts.clusters else "is needed for"
            raise UsageError(f"--clusters {with_clusters} {', '.join(unused)}")
        if opts.clusters:
            _write_clusters(opened, args, opts)
        else:
            await self._find(opened, args, opts)

    async def _find(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.config import read
        from webcrawl.documents.mime.language import detected
        from webcrawl.search.copies import copies_of, unstored
        from webcrawl.search.folder import updated_at
        from webcrawl.search.searching import Search

        limit = _LIMIT if opts.limit is None else opts.limit
        if len(args) != 1 or limit < 1:
            raise UsageError("give one file or URL, and a limit of 1 or more")
        least = _LEAST if opts.least is None else opts.least
        bits = read(self.settings, "SIMHASH_DISTANCE")
        folder = index_folder(opened, opts)
        if updated_at(folder) is None and (await made_index(opened, self.settings, folder, opts)).is_stopped:
            self.exitcode = 1
            return
        search = Search(folder)
        with opened.metadata() as metadata:
            url, text = await self._text(opened, search, metadata, args[0])
            copies = copies_of(search, text, detected(text), least=least / 100, bits=bits, leave_out=url)
            others = [page for page in unstored(metadata, text, bits=bits) if page[0] != url]
        for copy in copies[:limit]:
            print(_json(copy) if opts.json else _lines(copy))
        for other, distance in others[:limit]:
            print(_unstored(other, distance, as_json=opts.json))
        print(f"{counted(len(copies) + len(others), 'page')}.", file=sys.stderr)

    async def _text(
        self, opened: OpenedCrawl, search: Search, metadata: Metadata, name: str
    ) -> tuple[str | None, str]:
        """Returns URL and text of a page, or None and the text of a file; raises StoreError."""
        from webcrawl.crawler.pages.stored_texts import StoredTexts
        from webcrawl.documents.body import Body
        from webcrawl.documents.document import Document
        from webcrawl.documents.mime.sniff import sniff

        path = Path(name)
        if not path.is_file():
            return _page(opened, search, name)
        try:
            body = Body.at(name)
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror}") from error
        uri = path.absolute().as_uri()
        media = sniff(None, body, uri)
        document = Document(body, media.mime_type, media.charset, uri)
        try:
            page_text = await StoredTexts(opened, self.settings, metadata).text(document)
        except UnreadableDocument as error:
            raise StoreError(f"{path} {error}") from error
        if not page_text.text:
            raise StoreError(f"{path} ({media.mime_type}) has no text")
        return None, page_text.text


def _unused(opts: argparse.Namespace) -> tuple[str, ...]:
    return _ONE_DOCUMENT if opts.clusters else _CLUSTERS_ONLY


def _write_clusters(opened: OpenedCrawl, folders: list[str], opts: argparse.Namespace) -> None:
    from webcrawl.clusters.clustering import Clustered, write_clusters
    from webcrawl.graph.spark.session import check_master
    from webcrawl.results.exports.export import store_export
    from webcrawl.stores.objects.store import location, open_store
    from webcrawl.stores.tables.store import parquet_files
    from webcrawl.stores.tables.texts import text_files

    classes, master = opened.stores.object_stores, opts.engine if opts.engine != _DUCKDB else None
    if master is not None:
        check_master(master)
    openers = [] if folders else text_files(opened.stores)
    for folder in folders:
        store = open_store(location(folder), "--clusters", classes, check=False)
        if not (files := parquet_files(store)):
            raise StoreError(f"--clusters: no Parquet files are in {store.uri()}")
        openers += files
    if not openers:
        raise StoreError(f"no texts are stored in {opened.stores.tables}: crawl with TEXT = 'parquet'")
    output = open_store(
        location(opts.output or str(opened.stores.data_dir / "clusters")), "--output", classes
    )
    least = _LEAST_SIMILAR if opts.least is None else opts.least
    clustered: list[Clustered] = []

    def written(folder: Path, stamp: str) -> dict[str, int]:
        if master is not None:
            from webcrawl.clusters.by_spark import write_clusters_by_spark

            figures, rows = write_clusters_by_spark(
                openers, folder, f"clusters-{stamp}", master, least=least / 100, crawl=opts.crawl
            )
        else:
            path = folder / f"clusters-{stamp}.parquet"
            figures = write_clusters(openers, path, least=least / 100, crawl=opts.crawl)
            rows = {path.name: figures.pages}
        clustered.append(figures)
        return rows

    about = {"source": folders or [opened.stores.tables], "least": least, "crawl": opts.crawl}
    store_export(output, written, about, force=opts.force)
    pages, clusters, in_clusters = clustered[0]
    print(
        f"{counted(pages, 'page')}: {counted(in_clusters, 'page')} in {counted(clusters, 'cluster')} of similar "
        f"pages. {output.uri()}"
    )


def _page(opened: OpenedCrawl, search: Search, name: str) -> tuple[str, str]:
    """Returns the URL and the text of a page in the index."""
    try:
        url = seed_url(name)
    except InvalidURL as error:
        raise StoreError(f"{name} is neither a file nor a URL") from error
    for spelling in dict.fromkeys([url, opened.canonicalizer.canonical(url)]):
        if (text := search.text_of(spelling)) is not None:
            if not text:
                raise StoreError(f"{spelling} has no text")
            return spelling, text
    raise StoreError(
        f"{name} is neither a file nor a page in {search.folder}: `scrapy search --update` adds new pages"
    )


def _json(copy: Copy) -> str:
    entry = copy.entry
    line: dict[str, Any] = {
        "url": entry.url,
        "title": entry.title,
        "fetched_at": entry.fetched_at,
        "share": round(copy.share, 4),
        "distance": copy.distance,
        "passages": [passage._asdict() for passage in copy.passages],
    }
    return json.dumps({name: value for name, value in line.items() if value is not None})


def _unstored(url: str, distance: int, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({"url": url, "distance": distance})
    return printable(
        f"   ?  {url}  (its text is not stored; its SimHash differs in {counted(distance, 'bit')})"
    )


def _lines(copy: Copy) -> str:
    """Returns the share, the page, and its longest passages."""
    entry = copy.entry
    lines = [printable(f"{copy.share:4.0%}  {entry.url}  {' '.join((entry.title or '').split())}".rstrip())]
    for passage in copy.passages[:_PASSAGES]:
        text = " ".join(passage.text.split())
        cut = text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
        lines.append(printable(f"      {counted(passage.words, 'word')}: {cut}"))
    if (more := len(copy.passages) - _PASSAGES) > 0:
        lines.append(f"      and {counted(more, 'passage')} more")
    return "\n".join(lines)
