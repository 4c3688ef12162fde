"""`scrapy export`: writes the rows of pages as Parquet, JSON Lines, CSV or the index of Common Crawl; packs a crawl."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.exceptions import UsageError

from webcrawl.config import read
from webcrawl.config.extraction import ExtractRule, extract_rules
from webcrawl.crawler.command import StoresCommand, flag, option
from webcrawl.documents.values import counted
from webcrawl.errors import printable

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl
    from webcrawl.results.exports.parts import ExportPart
    from webcrawl.stores.locations import Row
    from webcrawl.stores.metadata import Metadata
    from webcrawl.stores.objects.store import ObjectStore
    from webcrawl.stores.warc.wacz import Contents


_MOST_NAMED = 20
_TABLES = ("links", "texts")
_LAKE = "iceberg"
_FORMATS = ("parquet", "jsonl", "csv", "cc-index", "wat", "wacz", *_TABLES, _LAKE)
_NOT_PACKED = ("partition", "host", "since", "changed-since", "status", "type", "markdown")
"""The options that choose rows or columns, which a WACZ file has not."""


class Command(StoresCommand):
    """Reads metadata and archive, also while crawls write to them; needs no engine."""

    usage = "[options] -o <folder or URI>"
    summary = "Write pages as Parquet, JSON, CSV, or for replay"
    description = (
        "Write the rows of all pages as Parquet, JSON Lines or CSV into a folder or an object store; or pack a crawl "
        "into one WACZ file for replay, which has its WARC files, their index and a list of pages"
    )
    options = (
        option(
            "-o --output",
            "folder, or URI of an object store such as s3://bucket/prefix; with --format wacz that of a file",
        ),
        option(
            "--format",
            "parquet, the default if pyarrow is installed; otherwise jsonl; with links and texts, the stored links or "
            "texts that are current, as Parquet; with iceberg, all three as tables of Iceberg in the lake of the crawl",
            choices=_FORMATS,
        ),
        option(
            "--partition",
            "folders by day of fetching, by crawl, 64 or (host) 16 folders by hash of the host, or none; by default "
            "EXPORT_PARTITION, else date for pages and none for links and texts",
            choices=("date", "crawl", "shard", "host", "none"),
        ),
        option("--host", "only the pages of one host, such as https://example.org"),
        option("--crawl", "only pages that this crawl fetched last; with --format wacz the crawl to pack"),
        option("--since", "only pages fetched at or after this date, such as 2026-02-03 or 2026-02-03T12:00"),
        option(
            "--changed-since",
            "only pages that are new, changed or gone since this date, marked in column change",
        ),
        option("--status", "only these HTTP statuses, such as 200 or 2xx,304"),
        option("--type", "only these MIME types, such as text/html or image/*,text/css"),
        flag("--text", "add the text of each page, from the archive"),
        flag("--markdown", "add the Markdown of each HTML page"),
        option("--title", "with --format wacz, title of the collection; by default the crawl's name"),
        flag("--force", "replace an existing export"),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        if opts.format == _LAKE and not args:
            _update_lake(opened, opts, extract_rules(read(self.settings, "EXTRACT")))
            return
        if args or not opts.output:
            raise UsageError("give the destination: -o folder, -o s3://bucket/prefix, or -o file.wacz")
        if not opts.format:
            opts.format = _format_of_name(opts.output)
        if opts.title and opts.format != "wacz":
            raise UsageError("--title is for --format wacz")
        if opts.format == "wacz":
            self._pack(opened, opts)
            return
        if opts.format == "wat":
            loop = asyncio.get_running_loop()
            manifest, uri, left_out = await asyncio.to_thread(_export_wat, opened, opts, loop)
            _report_rows(manifest, uri, "record")
            self._report_left(left_out)
            return
        chosen = read(self.settings, "EXPORT_PARTITION")
        if opts.format in _TABLES:
            _report_rows(*_export_table(opened, opts, opts.partition or chosen or "none"))
            return
        opts.format = opts.format or _usual_format()
        if opts.partition and opts.format == "cc-index":
            raise UsageError("--format cc-index has its own folders: leave out --partition")
        if (opts.text or opts.markdown or opts.changed_since) and opts.format == "cc-index":
            raise UsageError("--format cc-index has no columns for --text, --markdown and --changed-since")
        opts.partition = opts.partition or chosen or "date"
        # in a thread, because the event loop of this thread runs the reader processes
        manifest, uri = await asyncio.to_thread(self._export, opened, opts, asyncio.get_running_loop())
        _report_rows(manifest, uri)

    def _pack(self, opened: OpenedCrawl, opts: argparse.Namespace) -> None:
        """Packs a crawl into one file."""
        from webcrawl.errors import StoreError
        from webcrawl.opened import DEFAULT_CRAWL
        from webcrawl.results.exports import wacz
        from webcrawl.results.exports.wacz import ReferredRecords
        from webcrawl.stores.archive import archive_to_read, robotstxt_to_read
        from webcrawl.stores.bodies import Bodies
        from webcrawl.stores.objects.store import object_location, open_store

        if unused := [f"--{name}" for name in _NOT_PACKED if getattr(opts, name.replace("-", "_"))]:
            raise UsageError(f"--format wacz packs all pages of a crawl: leave out {', '.join(unused)}")
        parent, name = object_location(opts.output)
        if not name:
            raise UsageError(f"{opts.output} does not name a file")
        stores = opened.stores
        store = open_store(parent, "--output", stores.object_stores)
        if store.size(name) is not None and not opts.force:
            raise StoreError(f"{store.uri(name)} exists: --force replaces it")
        wacz.check_archive(stores)
        archive, robotstxt = archive_to_read(stores), robotstxt_to_read(stores)
        metadata = opened.metadata_if_any()
        if metadata is None:
            print("There is no metadata database: the list of pages has no titles.", file=sys.stderr)
        with metadata or nullcontext():
            named = opts.crawl or read(self.settings, "CRAWL_ID")
            files = wacz.of_crawl((archive, robotstxt), named, DEFAULT_CRAWL, str(stores.pages))
            bodies = Bodies(archive, opened.fetch)
            titles = wacz.PageTitles(bodies, metadata, stores.text_parts[0] if opts.text else None)
            referred = None if metadata is None else ReferredRecords(archive, bodies, metadata)
            title = opts.title or f"Crawl {files.crawl}"
            packed = wacz.pack(store, name, files.warcs, titles, title, referred)
        _report(packed, store, name)
        self._report_left({**files.left_out, **titles.problems})

    def _report_left(self, left_out: Mapping[str, str]) -> None:
        for left, reason in left_out.items():
            self.exitcode = 1
            print(printable(f"Left out: {left}: {reason}"), file=sys.stderr)

    def _export(
        self, opened: OpenedCrawl, opts: argparse.Namespace, loop: asyncio.AbstractEventLoop
    ) -> tuple[dict[str, Any], str]:
        """Returns the manifest of the export, and its location."""
        from webcrawl.crawler.pages.stored_texts import StoredTexts, TextColumns
        from webcrawl.opened import host_named
        from webcrawl.results.exports import changes
        from webcrawl.results.exports.export import export
        from webcrawl.results.exports.parts import exported_rows, extracted_fields, with_extracted
        from webcrawl.stores.objects.store import location, open_store
        from webcrawl.stores.selection import moment, of_crawl, of_type, since, with_status

        host = host_named(opts.host) if opts.host else None
        conditions = {"crawl": of_crawl, "since": since, "status": with_status, "type": of_type}
        only = {name: value for name in ("host", *conditions) if (value := getattr(opts, name))}
        where = [conditions[name](value) for name, value in only.items() if name in conditions]
        store = open_store(location(opts.output), "--output", opened.stores.object_stores)
        with opened.metadata() as metadata:
            if opts.crawl:
                _check_crawl(opts.crawl, metadata)
            form = _form(opts, metadata)
            if opts.changed_since:
                time = moment(opts.changed_since)
                only["changed_since"] = opts.changed_since
                changed = metadata.scan(host, where=[*where, changes.changed_since(time)])
                rows = exported_rows(changes.marked(changed, time, metadata.history))
                form = form._replace(fields={**form.fields, changes.COLUMN: "string"})
            else:
                rows = form.rows(metadata.scan(host, where=where))
            if (rules := extract_rules(read(self.settings, "EXTRACT"))) and opts.format != "cc-index":
                form = form._replace(fields={**form.fields, **extracted_fields(rules)})
                rows = with_extracted(rows, rules)
            texts = None
            if wanted := [name for name in ("text", "markdown") if getattr(opts, name)]:
                stored = StoredTexts(opened, self.settings, metadata)
                names = stored.names(wanted)
                texts = TextColumns(stored, names)
                rows = texts.added_to_all(rows, loop)
                form = form._replace(fields={**form.fields, **dict.fromkeys(names, "string")})
            about = {"source": metadata.name, "fields": form.fields, "only": only, "force": opts.force}
            manifest = export(rows, store, form.part, form.partition, **about)
            if texts is not None and texts.unread:
                unread = counted(texts.unread, "archived page")
                print(f"{unread} could not be read, such as {printable(texts.problem)}", file=sys.stderr)
        return manifest, store.uri()


def _format_of_name(output: str) -> str | None:
    """Returns the format of a destination that is named like a file; raises UsageError if a folder would have its name.

    Folders of Parquet files are often named like files.
    """
    name, _, ending = output.rpartition(".")
    if name and ending == "wacz":
        return ending
    form = {"json": "jsonl", "ndjson": "jsonl"}.get(ending, ending)
    if name and form in ("jsonl", "csv"):
        raise UsageError(
            f"{output} would be a folder: give the name of one and the format, such as -o {name} --format {form}",
            print_help=False,
        )
    return None


def _export_table(
    opened: OpenedCrawl, opts: argparse.Namespace, partition: str
) -> tuple[dict[str, Any], str]:
    """Exports the current links or texts; returns the manifest, and the location of the export."""
    from webcrawl.results.exports.export import store_export
    from webcrawl.results.exports.snapshot import write_snapshot
    from webcrawl.stores.current_pages import CurrentPages
    from webcrawl.stores.objects.store import location, open_store

    if unused := [
        f"--{name}" for name in (*_NOT_PACKED[1:], "crawl", "text") if getattr(opts, name.replace("-", "_"))
    ]:
        raise UsageError(
            f"--format {opts.format} has the current rows of all pages: leave out {', '.join(unused)}"
        )
    if partition == "host":
        raise UsageError(f"--partition host is for pages: --format {opts.format} has shard")
    store = open_store(location(opts.output), "--output", opened.stores.object_stores)
    with opened.metadata() as metadata:
        pages = CurrentPages(metadata.contents())
        about = {"source": metadata.name, "format": opts.format, "partition": partition}
    manifest = store_export(
        store,
        lambda folder, stamp: write_snapshot(
            opened.stores, opts.format, pages, folder, stamp, partition=partition
        ),
        about,
        force=opts.force,
    )
    return manifest, store.uri()


def _export_wat(
    opened: OpenedCrawl, opts: argparse.Namespace, loop: asyncio.AbstractEventLoop
) -> tuple[dict[str, Any], str, dict[str, str]]:
    """Exports WAT files; returns the manifest, the location of the export, and which WARC files are damaged."""
    from webcrawl.crawler.pages.wat_pages import WatPages
    from webcrawl.results.exports import wacz, wat
    from webcrawl.results.exports.export import store_export
    from webcrawl.stores.archive import archive_to_read
    from webcrawl.stores.bodies import Bodies
    from webcrawl.stores.objects.store import location, open_store

    if unused := [f"--{name}" for name in (*_NOT_PACKED, "text") if getattr(opts, name.replace("-", "_"))]:
        raise UsageError(f"--format wat has all records of a crawl: leave out {', '.join(unused)}")
    stores = opened.stores
    store = open_store(location(opts.output), "--output", stores.object_stores)
    wacz.check_archive(stores)
    archive = archive_to_read(stores)
    files = wat.warc_files(archive, opts.crawl)
    pages = WatPages(opened.readers, loop)
    bodies, left_out = Bodies(archive, opened.fetch), dict[str, str]()
    manifest = store_export(
        store,
        lambda folder, stamp: wat.write_wat(files, bodies, pages.read, folder, left_out),
        {"source": str(stores.pages), "format": opts.format},
        force=opts.force,
    )
    if pages.unread:
        unread = counted(pages.unread, "HTML page")
        print(f"{unread} could not be read, such as {printable(pages.problem)}", file=sys.stderr)
    return manifest, store.uri(), left_out


def _report_rows(manifest: Mapping[str, Any], uri: str, noun: str = "row") -> None:
    print(f"{counted(manifest['rows'], noun)} in {counted(len(manifest['files']), 'file')}: {uri}")


def _update_lake(opened: OpenedCrawl, opts: argparse.Namespace, rules: Sequence[ExtractRule]) -> None:
    """Brings the tables of Iceberg up to date, and prints where they are."""
    from webcrawl.lake.catalogue import check_lake
    from webcrawl.lake.update import update_lake

    names = (*_NOT_PACKED, "output", "crawl", "text", "title", "force")
    if unused := [f"--{name}" for name in names if getattr(opts, name.replace("-", "_"))]:
        raise UsageError(
            f"--format {_LAKE} updates the tables in the lake of the crawl: leave out {', '.join(unused)}"
        )
    check_lake(opened.stores)
    with opened.metadata() as metadata:
        tables = update_lake(opened.stores, metadata, opened.config.crawl_id, rules)
    for name, state in tables.items():
        print(
            f"{name}: {counted(state.rows, 'row')} in {counted(state.files, 'file')}, {state.added:,} added; "
            f"snapshot {state.snapshot}, {state.metadata}"
        )
    if not tables:
        print("Nothing is stored yet.", file=sys.stderr)


def _usual_format() -> str:
    """Returns Parquet, or JSON Lines if its library is not installed, and then says so on stderr."""
    from webcrawl.config.libraries import install_command, is_installed

    if is_installed("parquet"):
        return "parquet"
    print(f"Written as JSON Lines. For Parquet: {install_command(['parquet'])}", file=sys.stderr)
    return "jsonl"


def _report(packed: Contents, store: ObjectStore, name: str) -> None:
    size = store.size(name) or 0
    print(
        f"Wrote {counted(packed.records, 'exchange')}, with those of robots.txt, of "
        f"{counted(packed.files, 'WARC file')} to {store.uri(name)}: {size / 1e6:,.1f} MB. "
        f"Its list has {counted(packed.pages, 'HTML page')}."
    )
    if packed.without_body:
        print(
            f"Left out of the list: {counted(packed.without_body, 'page')} that answered 304 (unchanged). The body "
            "is in no record of this crawl, or of another that the metadata database names.",
            file=sys.stderr,
        )


def _check_crawl(name: str, metadata: Metadata) -> None:
    """Raises StoreError if the crawl has no row: with --force, an empty export would replace an export."""
    from webcrawl.errors import StoreError
    from webcrawl.stores.selection import of_crawl

    if next(metadata.scan(where=[of_crawl(name)]), None) is None:
        crawls = ", ".join(map(repr, metadata.crawls()[:_MOST_NAMED])) or "none"
        raise StoreError(
            f"--crawl: crawl {name!r} fetched no page in {metadata.name} last; crawls that did: {crawls}"
        )


class _Form(NamedTuple):
    """A format of exports: its files, folders and fields, and the function that makes its rows from database rows."""

    part: type[ExportPart]
    partition: str
    fields: Mapping[str, str]
    rows: Callable[[Iterator[Row]], Iterator[Row]]


def _form(opts: argparse.Namespace, metadata: Metadata) -> _Form:
    from webcrawl.results.exports import cc_index
    from webcrawl.results.exports.parts import FIELDS, FORMATS, ParquetPart, exported_rows

    if opts.format == "cc-index":
        return _Form(
            ParquetPart, "cc-index", cc_index.FIELDS, lambda rows: cc_index.index_rows(rows, metadata.get)
        )
    return _Form(FORMATS[opts.format], opts.partition, FIELDS, exported_rows)
