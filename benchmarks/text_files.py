"""What other programs read in the texts of a crawl, beside the truth: database, WARC files, and rules of datatrove.

    scrapy crawl broad -d data -a seeds=... -s TEXT=wet,parquet -s TEXT_MARKDOWN=True -s TEXT_SIGNALS=True
    scrapy export -d data -o data/wat --format wat
    make bench-texts ARGS="--files data"

warcio and FastWARC read the WET and WAT files, DuckDB and Polars the tables, lxml the links of archived pages. If
datatrove is installed (`pip install datatrove faust-cchardet python-magic`), its reader and its definitions are
compared too.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import polars
from fastwarc.warc import ArchiveIterator as FastIterator, WarcRecordType
from lxml import html
from warcio.archiveiterator import ArchiveIterator

from benchmarks.command import table

_Rows = list[tuple[str, object, object]]
_ARCHIVED = "status BETWEEN 200 AND 299 AND NOT coalesce(soft_404, 0) AND warc_file IS NOT NULL"


def report_text_files(data: Path) -> None:
    """Prints what is read of a crawl's files, and what there should be."""
    texts = list(_texts(data))
    rows = [
        *_of_wet(data, texts),
        *_of_markdown(data),
        *_of_tables(data, dict(texts)),
        *_of_wat(data),
        *_of_datatrove(data, texts),
    ]
    print(table("what | read | truth", [[name, str(read), str(truth)] for name, read, truth in rows]))


def _texts(data: Path) -> Iterator[tuple[str, str]]:
    """Yields URL and text of all conversion records, as FastWARC reads them."""
    for path in sorted((data / "wet").glob("*.warc.wet.gz")):
        with path.open("rb") as file:
            for record in FastIterator(file, record_types=WarcRecordType.conversion):
                yield record.headers["WARC-Target-URI"], record.reader.read().decode()


def _of_wet(data: Path, texts: list[tuple[str, str]]) -> _Rows:
    with closing(sqlite3.connect(data / "metadata.db")) as database:
        good = {url for (url,) in database.execute(f"SELECT url FROM pages WHERE {_ARCHIVED}")}
    by_warcio, kinds, digests = 0, Counter[str](), 0
    files = sorted((data / "wet").glob("*.gz"))
    for path in files:
        with path.open("rb") as file:
            for number, record in enumerate(ArchiveIterator(file, check_digests=True)):
                kinds["first" if not number else "other", record.rec_type] += 1
                record.content_stream().read()
                digests += record.digest_checker.passed is True
                by_warcio += record.rec_type == "conversion"
    urls = {url for url, _ in texts}
    return [
        ("WET: first records that are warcinfo", kinds["first", "warcinfo"], len(files)),
        ("WET: conversions by warcio", by_warcio, len(texts)),
        ("WET: their block digests that are right", digests, by_warcio + len(files)),
        ("WET: documents for each URL by FastWARC", len(texts) / max(1, len(urls)), 1.0),
        ("WET: URLs that are no successful page", len(urls - good), 0),
    ]


def _of_markdown(data: Path) -> _Rows:
    types = Counter[str]()
    for path in sorted((data / "markdown").glob("*.warc.md.gz")):
        with path.open("rb") as file:
            for record in FastIterator(file, record_types=WarcRecordType.conversion):
                types[record.headers["Content-Type"]] += 1
    return [("Markdown: records of another type", types.total() - types["text/markdown"], 0)]


def _of_tables(data: Path, texts: dict[str, str]) -> _Rows:
    files = str(data / "texts" / "*.parquet")
    query = f"SELECT url, text FROM read_parquet('{files}') WHERE status BETWEEN 200 AND 299"
    by_duckdb = dict(duckdb.sql(query).fetchall())
    by_polars = polars.scan_parquet(files).filter(polars.col("status").is_between(200, 299)).collect()
    return [
        ("tables: URLs by Polars", by_polars["url"].n_unique(), len(by_duckdb)),
        (
            "tables: texts by DuckDB equal to those in WET",
            sum(by_duckdb.get(url) == text for url, text in texts.items()),
            len(texts),
        ),
    ]


def _of_wat(data: Path) -> _Rows:
    """Compares the WAT files with the WARC files, and their links with those that lxml finds."""
    records = links = 0
    for path in sorted((data / "wat").glob("*.warc.wat.gz")):
        with path.open("rb") as file:
            for record in FastIterator(file, record_types=WarcRecordType.metadata):
                payload = json.loads(record.reader.read())["Envelope"]["Payload-Metadata"]
                page = payload.get("HTTP-Response-Metadata", {}).get("HTML-Metadata", {})
                links += sum(link["path"] == "A@/href" for link in page.get("Links", ()))
                records += 1
    of_warc = anchors = 0
    for path in sorted((data / "warc").glob("*.warc.gz")):
        with path.open("rb") as file:
            for record in FastIterator(file, parse_http=True):
                of_warc += 1
                anchors += _anchors(record)
    return [("WAT: records", records, of_warc), ("WAT: links of `a`, and by lxml", links, anchors)]


def _anchors(record: Any) -> int:
    if record.record_type != WarcRecordType.response or "html" not in (record.http_content_type or ""):
        return 0
    body = record.reader.read()
    if record.http_headers.get("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    return len(html.fromstring(body).xpath("//a[@href]")) if body.strip() else 0


def _of_datatrove(data: Path, texts: list[tuple[str, str]]) -> _Rows:
    try:
        from datatrove.pipeline.filters import gopher_repetition_filter as rules
        from datatrove.pipeline.readers import WarcReader
    except ImportError:
        return [("datatrove", "not installed", "")]
    documents = sum(1 for _ in WarcReader(str(data / "wet"), glob_pattern="*.warc.wet.gz").run())
    query = f"SELECT text, signals FROM read_parquet('{data}/texts/*.parquet') WHERE signals IS NOT NULL"
    stored = duckdb.sql(query).fetchall()
    differing = sum(
        abs(value - signals[name]) > 1e-9
        for text, signals in stored
        for name, value in _by_definition(rules, text).items()
    )
    return [
        ("WET: documents by datatrove", documents, len(texts)),
        ("signals: texts", len(stored), ""),
        ("signals: values that differ from datatrove's functions", differing, 0),
    ]


def _by_definition(rules: Any, text: str) -> dict[str, float]:
    """Returns shares by the functions of GopherRepetitionFilter, of words that are separated by white space."""
    words, lines = text.split(), text.split("\n")
    repeated, characters = rules.find_duplicates(lines)
    shares = {
        "duplicate_line_share": repeated / len(lines),
        "duplicate_line_character_share": characters / len(text),
    }
    for size in (2, 3, 4):
        if grams := rules.get_n_grams(words, size):
            shares[f"top_{size}gram_share"] = rules.find_top_duplicate(grams) / len(text)
    for size in range(5, 11):
        shares[f"duplicate_{size}gram_share"] = rules.find_all_duplicate(words, size) / len(text)
    return shares
