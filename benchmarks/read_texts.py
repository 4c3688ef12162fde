"""Reads the texts of a crawl with other programs only, and prints their figures beside what was served.

    make read-texts [ARGS="--pages 1000"]

A site of known pages is crawled with texts in WET files and Parquet, of main parts and whole pages, and WAT files are
exported. warcio, FastWARC, DuckDB, Polars, datatrove and Hugging Face datasets read them. The exit status is 1 if an
answer is wrong. Some of these programs are installed into a folder of their own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import duckdb
import polars
from fastwarc.warc import ArchiveIterator as FastIterator, WarcRecordType
from warcio.archiveiterator import ArchiveIterator

from benchmarks.beside_truth import files, read_elsewhere, report
from benchmarks.command import command_line, scrapy
from benchmarks.known_site import COPIES, GONE, ODD, REDIRECTS, SITE, KnownSite
from tests.crawls import crawl_hosts

SETTINGS = {"TEXT": "wet,parquet", "TEXT_PART": "both", "TEXT_MARKDOWN": True, "LINKS": True}


def truth(site: KnownSite) -> dict[str, Any]:
    """What the site has. A copy has no text of its own and a record without its bytes, an error page no document."""
    texts = 1 + site.pages + ODD
    links = sum(1 for _ in site.links())
    return {
        "documents": texts,
        "documents with the sidebar": 0,
        "pages whose sentence is read": site.pages,
        "whole pages with the sidebar": site.pages,
        "wrong block digests": 0,
        "Markdown records outside of files of their own": 0,
        "texts in Parquet": texts,
        "texts in Parquet that differ from WET": 0,
        "languages that are wrong": 0,
        "WAT records of HTML": texts + GONE + REDIRECTS,
        "links between pages in WAT": links,
        "links between pages in Parquet": links,
        "links to pages that join no page": 0,
    }


def by_warcio(data: Path, out: Path, site: KnownSite) -> dict[str, Any]:
    wet = list(conversions(data / "wet"))
    return {
        **figures((text for _, text in wet), site),
        "whole pages with the sidebar": sum(
            "Sidebar of" in text for _, text in conversions(data / "page-wet")
        ),
        "wrong block digests": sum(wrong_digests(data / name) for name in ("wet", "page-wet", "markdown")),
        "Markdown records outside of files of their own": sum(kind != "text/plain" for kind, _ in wet),
        **_links_in_wat(out / "wat", site),
    }


def conversions(folder: Path) -> Iterator[tuple[str, str]]:
    for name in files(folder, "*.gz"):
        with open(name, "rb") as file:
            for record in ArchiveIterator(file):
                if record.rec_type == "conversion":
                    kind = record.rec_headers.get_header("Content-Type")
                    yield kind, record.content_stream().read().decode()


def wrong_digests(folder: Path) -> int:
    wrong = 0
    for name in files(folder, "*.gz"):
        with open(name, "rb") as file:
            for record in ArchiveIterator(file, check_digests=True):
                record.content_stream().read()
                wrong += record.digest_checker.passed is False
    return wrong


def figures(texts: Iterable[str], site: KnownSite) -> dict[str, Any]:
    """What is counted in the documents of main parts."""
    texts = list(texts)
    words = {word for text in texts for word in text.split()}
    return {
        "documents": len(texts),
        "documents with the sidebar": sum("Sidebar of" in text for text in texts),
        "pages whose sentence is read": len(words & {site.sentence(number) for number in range(site.pages)}),
    }


def _links_in_wat(folder: Path, site: KnownSite) -> dict[str, Any]:
    """Reads the JSON as the examples of Common Crawl do."""
    pages = links = 0
    for name in files(folder, "*.gz"):
        with open(name, "rb") as file:
            for record in ArchiveIterator(file):
                if record.rec_type != "metadata":
                    continue
                envelope = json.loads(record.content_stream().read())["Envelope"]
                if envelope["WARC-Header-Metadata"]["WARC-Type"] != "response":
                    continue
                uri = envelope["WARC-Header-Metadata"]["WARC-Target-URI"]
                response = envelope["Payload-Metadata"]["HTTP-Response-Metadata"]
                if "HTML-Metadata" not in response:
                    continue
                pages += 1
                addresses = [
                    urljoin(uri, link["url"])
                    for link in response["HTML-Metadata"].get("Links", ())
                    if link["path"] == "A@/href"
                ]
                if uri != site.home:
                    links += sum("/page/" in address for address in addresses)
    return {"WAT records of HTML": pages, "links between pages in WAT": links}


def by_fastwarc(data: Path, out: Path, site: KnownSite) -> dict[str, Any]:
    def texts(folder: Path) -> Iterator[str]:
        for name in files(folder, "*.gz"):
            with open(name, "rb") as file:
                for record in FastIterator(file, record_types=WarcRecordType.conversion):
                    yield record.reader.read().decode()

    whole = sum("Sidebar of" in text for text in texts(data / "page-wet"))
    return {**figures(texts(data / "wet"), site), "whole pages with the sidebar": whole}


def by_duckdb(data: Path, out: Path, site: KnownSite) -> dict[str, Any]:
    connection = duckdb.connect()
    for name in ("pages", "texts", "links"):
        connection.read_parquet(f"{out}/{name}/*.parquet").create_view(name)

    def rows(question: str) -> list[tuple[Any, ...]]:
        return list(connection.sql(question).fetchall())

    wet = sorted(text for _, text in conversions(data / "wet"))
    stored = sorted(text for (text,) in rows("SELECT text FROM texts"))
    languages = {
        int(url.rpartition("/")[2]): language
        for url, language in rows("SELECT url, language FROM texts WHERE url LIKE '%/page/%'")
    }
    return {
        "texts in Parquet": len(stored),
        "texts in Parquet that differ from WET": len(set(stored) ^ set(wet)),
        "languages that are wrong": sum(
            language != site.language(number) for number, language in languages.items()
        ),
        "links between pages in Parquet": rows(
            "SELECT count(*) FROM links WHERE from_url LIKE '%/page/%' AND to_url LIKE '%/page/%'"
        )[0][0],
        "links to pages that join no page": rows(
            "SELECT count(*) FROM links ANTI JOIN pages ON links.to_host = pages.host AND links.to_url = pages.url"
        )[0][0],
    }


def by_polars(data: Path, out: Path, site: KnownSite) -> dict[str, Any]:
    texts = polars.scan_parquet(f"{out}/texts/*.parquet")
    links, pages = (polars.scan_parquet(f"{out}/{name}/*.parquet") for name in ("links", "pages"))
    alone = links.join(pages, left_on=["to_host", "to_url"], right_on=["host", "url"], how="anti")
    between = links.filter(*(polars.col(name).str.contains("/page/") for name in ("from_url", "to_url")))
    return {
        "texts in Parquet": texts.select(polars.len()).collect().item(),
        "links between pages in Parquet": between.select(polars.len()).collect().item(),
        "links to pages that join no page": alone.select(polars.len()).collect().item(),
    }


READERS: dict[str, Callable[[Path, Path, KnownSite], dict[str, Any]]] = {
    "warcio": by_warcio,
    "FastWARC": by_fastwarc,
    "DuckDB": by_duckdb,
    "Polars": by_polars,
}


def main() -> int:
    options = command_line(__doc__, pages=(300, "pages of the site")).parse_args()
    site = KnownSite(options.pages)
    with tempfile.TemporaryDirectory() as name, site.web:
        folder, out = Path(name), Path(name) / "out"
        site.publish()
        data = crawl_hosts([site.home], folder, timeout=600, **SETTINGS).data_dir
        for name, kind in (("pages", "parquet"), ("texts", "texts"), ("links", "links"), ("wat", "wat")):
            words = ("export", "--format", kind, "-o", out / name)
            more = () if kind == "wat" else ("--partition", "none")
            subprocess.run(scrapy(*words, *more, DATA_DIR=data), check=True, stdout=sys.stderr)
        read = {program: answer(data, out, site) for program, answer in READERS.items()}
        asked = {
            **{"wet": str(data / "wet"), "page_wet": str(data / "page-wet"), "texts": str(out / "texts")},
            "sentences": [site.sentence(number) for number in range(site.pages)],
        }
        read |= read_elsewhere("readers_texts.py", asked)
        print(
            f"{len(site.web.pages(SITE)):,} requests: {REDIRECTS} redirects, {GONE} errors, {COPIES} copies\n"
        )
        return min(1, report(truth(site), read))


if __name__ == "__main__":
    sys.exit(main())
