"""`scrapy links URL`: shows the stored links on a page or to a page."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from scrapy.exceptions import UsageError

from webcrawl.crawler.command import StoresCommand, flag, option
from webcrawl.documents.values import counted
from webcrawl.errors import printable
from webcrawl.urls.seeds import seed_url

if TYPE_CHECKING:
    from webcrawl.opened import OpenedCrawl

_LIMIT = 100


class Command(StoresCommand):
    """Reads the link store, also while crawls write to it; needs no engine."""

    usage = "[options] [<url>]"
    summary = "Show the stored links on a page or to it"
    description = "Show the links on a page or to it, or how a host is linked; for crawls with LINKS"
    options = (
        option("--in", "links to the page or host, with their texts", dest="inbound", action="store_true"),
        flag("--host", "the hosts to which the host of the URL links, with numbers"),
        option("--crawl", "only what this crawl found (CRAWL_ID or the spider's name)"),
        option("--limit", "lines to print, by default 100; 0 prints all", type=int, default=_LIMIT),
        flag("--merge", "merge small files into larger ones"),
        flag("--json", "print JSON lines"),
    )

    async def work(self, opened: OpenedCrawl, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.links.merging import merge_files
        from webcrawl.links.questions import current, linked_hosts, links_from, links_to
        from webcrawl.links.sources import link_files
        from webcrawl.urls.canonical import as_requested
        from webcrawl.urls.reversed_hosts import plain_host, reversed_host

        if opts.merge:
            if args:
                raise UsageError("--merge takes no URL")
            link_files(opened.stores)  # raises StoreError if there are none
            merged = merge_files(opened.stores)
            done = f"Merged {counted(merged.before, 'file')} into {merged.after:,}."
            print(
                done if merged.before else "Nothing to merge: there are no two small files.", file=sys.stderr
            )
            return
        if len(args) != 1 or opts.limit < 0:
            raise UsageError("give one URL, and a limit of 0 or more")
        url = seed_url(args[0])
        files = link_files(opened.stores)
        # --crawl shows what a crawl found
        with (None if opts.crawl else opened.metadata_if_any()) or nullcontext() as metadata:
            rows = metadata and metadata.payload_rows
            lines: list[dict[str, Any]]
            if opts.host:
                about = {"inbound": opts.inbound, "crawl": opts.crawl, "rows": rows}
                hosts = linked_hosts(files.openers, reversed_host(url), **about)
                total, noun = len(hosts), "host"
                lines = [
                    {"host": plain_host(host), "links": links} for host, links in hosts[: opts.limit or total]
                ]
            else:
                spellings = sorted({url, as_requested(url), opened.canonicalizer.canonical(url)})
                links = (links_to if opts.inbound else links_from)(files.openers, spellings, opts.crawl)
                links = links if rows is None else current(links, rows)
                total, noun = len(links), "link"
                lines = links.slice(0, opts.limit or total).to_pylist()
        for line in lines:
            print(_json(line) if opts.json else printable(_text(line, inbound=opts.inbound)))
        shown = f"The first {opts.limit:,} of " if len(lines) < total else ""
        print(f"{shown}{counted(total, noun)}{'' if total else _why_none(opts)}.", file=sys.stderr)
        if files.unfinished:
            print("The latest links are left out: crawls are still writing them.", file=sys.stderr)


def _why_none(opts: argparse.Namespace) -> str:
    target = "host" if opts.host else "page"
    by_crawl = f" by crawl {opts.crawl!r}" if opts.crawl else ""
    if opts.inbound:
        return f": no link to this {target} is stored{by_crawl}"
    return f": no link on {'pages of this host' if opts.host else 'this page'} is stored{by_crawl}"


def _json(line: dict[str, Any]) -> str:
    return json.dumps(line, default=lambda time: time.isoformat())


def _text(line: dict[str, Any], *, inbound: bool) -> str:
    if "host" in line:
        return f"{line['links']:>11,}  {line['host']}"
    marks = [line["element"], *(["nofollow"] if line["nofollow"] else [])]
    words = f"  {line['text']}" if line["text"] else ""
    return f"{line['from_url' if inbound else 'to_url']}  ({', '.join(marks)}){words}"
