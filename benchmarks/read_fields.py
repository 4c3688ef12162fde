"""Reads extracted fields, structured data and mined tables with other programs only, beside what was served.

    make read-fields [ARGS="--pages 1000"]

A site of known pages is crawled with a rule that knows one of three ways in which the pages have a price; then the
archived pages are read again by a rule that knows all of them, and mined for pages of a language. DuckDB, Polars and
Python's readers of JSON and CSV read the outputs. The exit status is 1 if an answer is wrong.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars

from benchmarks.beside_truth import files, report
from benchmarks.command import command_line, scrapy
from benchmarks.known_site import WAYS, KnownSite
from tests.crawls import crawl_hosts

_ONE = ["css:.price"]
_ALL = [*_ONE, "jsonld:Product.offers.price", "microdata:price"]
LANGUAGE = "ja"
_TARGET = f"language = '{LANGUAGE}' AND text_length > 100"


def rule(selectors: list[str]) -> str:
    fields = {"price": {"type": "float", "select": selectors}}
    return json.dumps({"name": "prices", "match": r"/(page|copy)/\d+$", "fields": fields})


def truth(site: KnownSite) -> dict[str, Any]:
    """What the pages have. Of a page and its copy, one has fields: that which was fetched first."""
    prices = {number: price for number in range(site.pages) if (price := site.price(number)) is not None}
    by_css = [prices[number] for number in prices if WAYS[number % len(WAYS)] == "css"]
    of_way = {way: len(range(WAYS.index(way), site.pages, len(WAYS))) for way in WAYS}
    languages = [site.language(number) for number in range(site.pages)]
    return {
        "prices by CSS": len(by_css),
        "their sum": sum(by_css),
        "pages without a price": site.pages - len(by_css),
        "pages without a price, in the summary": site.pages - len(by_css),
        "prices after reparse": len(prices),
        "the sum after reparse": sum(prices.values()),
        "pages without a price after reparse": of_way["none"],
        "type of the column": "DOUBLE",
        "pages with JSON-LD": of_way["json-ld"],
        "pages with microdata": of_way["microdata"],
        "pages that are worth something": languages.count(LANGUAGE),
        "error pages with a kind": 0,
    }


def export(data: Path, out: Path, extract: str) -> None:
    for kind in ("parquet", "jsonl", "csv"):
        words = ("export", "--format", kind, "--partition", "none", "-o", out / kind)
        subprocess.run(scrapy(*words, DATA_DIR=data, EXTRACT=extract), check=True, stdout=sys.stderr)


def by_duckdb(before: Path, after: Path, mined: Path) -> dict[str, Any]:
    connection = duckdb.connect()
    for name, folder in {"before": before, "after": after}.items():
        connection.read_parquet(f"{folder}/parquet/*.parquet").create_view(name)
    for path in mined.glob("*.parquet"):
        connection.read_parquet(str(path)).create_view(f"mined_{path.stem}")

    def value(query: str) -> Any:
        return connection.sql(query).fetchall()[0][0]

    without = (
        "status = 200 AND duplicate_of IS NULL AND regexp_matches(url, '/(page|copy)/') AND price IS NULL"
    )
    json_ld, microdata = (
        value(f"SELECT count(json_extract(structured_data, '$.{syntax}')) FROM after")
        for syntax in ("json_ld", "microdata")
    )
    return {
        "prices by CSS": value("SELECT count(price) FROM before"),
        "their sum": value("SELECT sum(price) FROM before"),
        "pages without a price": value(f"SELECT count(*) FROM before WHERE {without}"),
        "prices after reparse": value("SELECT count(price) FROM after"),
        "pages without a price after reparse": value(f"SELECT count(*) FROM after WHERE {without}"),
        "the sum after reparse": value("SELECT sum(price) FROM after"),
        "type of the column": str(value("SELECT typeof(price) FROM after LIMIT 1")),
        "pages with JSON-LD": json_ld,
        "pages with microdata": microdata,
        "pages that are worth something": value("SELECT count(*) FROM mined_pages WHERE value > 0"),
        "error pages with a kind": value(
            "SELECT count(*) FROM mined_pages WHERE url LIKE '%/gone/%' AND kind IS NOT NULL"
        ),
    }


def by_polars(before: Path, after: Path, mined: Path) -> dict[str, Any]:
    prices = [polars.read_parquet(f"{folder}/parquet/*.parquet")["price"] for folder in (before, after)]
    pages = polars.read_parquet(mined / "pages.parquet")
    return {
        "prices by CSS": prices[0].count(),
        "their sum": prices[0].sum(),
        "prices after reparse": prices[1].count(),
        "the sum after reparse": prices[1].sum(),
        "pages that are worth something": pages.filter(polars.col("value") > 0).height,
    }


def by_python(before: Path, after: Path, mined: Path) -> dict[str, Any]:
    def prices(folder: Path) -> Iterator[float]:
        for name in files(folder / "csv", "*.csv"):
            with open(name, newline="", encoding="utf-8") as file:
                yield from (float(row["price"]) for row in csv.DictReader(file) if row["price"])

    rows = [
        json.loads(line)
        for name in files(after / "jsonl", "*.jsonl")
        for line in Path(name).read_text().splitlines()
    ]
    return {
        "prices by CSS": len(list(prices(before))),
        "their sum": sum(prices(before)),
        "prices after reparse": sum(row.get("price") is not None for row in rows),
        "the sum after reparse": sum(row.get("price") or 0 for row in rows),
    }


def missing(data: Path) -> int:
    """The pages without the field, as the summary of the crawl has them."""
    return int(json.loads((data / "summary.json").read_text())["missing_fields"].get("price", 0))


def main() -> int:
    options = command_line(__doc__, pages=(300, "pages of the site")).parse_args()
    site = KnownSite(options.pages)
    with tempfile.TemporaryDirectory() as name, site.web:
        before, after = Path(name) / "before", Path(name) / "after"
        site.publish()
        settings = {"EXTRACT": rule(_ONE), "STRUCTURED_DATA": True, "LINKS": True}
        data = crawl_hosts([site.home], Path(name), timeout=600, **settings).data_dir
        export(data, before, rule(_ONE))
        without = {"pages without a price, in the summary": missing(data)}
        reading = scrapy("reparse", "broad", DATA_DIR=data, **{**settings, "EXTRACT": rule(_ALL)})
        subprocess.run(reading, check=True, stdout=sys.stderr)
        export(data, after, rule(_ALL))
        mine = scrapy("mine", "--target", _TARGET, DATA_DIR=data)
        subprocess.run(mine, check=True, stdout=sys.stderr)
        read = {
            program: answer(before, after, data / "mined")
            for program, answer in {"DuckDB": by_duckdb, "Polars": by_polars, "Python": by_python}.items()
        }
        read["Python"] |= without
        return min(1, report(truth(site), read))


if __name__ == "__main__":
    sys.exit(main())
