"""Fields of pages by EXTRACT: in rows, exports, figures, stuck pages and notifications of real crawls."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from tests.crawl.conftest import Project
from tests.crawl.operations import BEGIN, Operations
from tests.crawl.reparsing import execute, reparse, summary
from tests.crawls import CHECKOUT, CrawlResult, crawl_hosts
from tests.mailserver import MailServer
from tests.web import LocalWeb, Reply

SITE = "127.0.1.1"
HERE = Project(CHECKOUT)
FILLER = "<p>" + "Words of a long page, which another process reads. " * 120
LD = '<script type="application/ld+json">{{"@type": "Product", "offers": {{"price": "{price}"}}}}</script>'
RULE = {
    "name": "products",
    "match": r"/product/\d+$",
    "fields": {
        "price": {"type": "float", "select": ["jsonld:Product.offers.price", "css:.price"]},
        "colours": {"type": "list", "select": "css:li"},
        "released": {"type": "date", "select": "xpath://time/@datetime"},
        "stock": {"type": "int", "select": "css:.stock", "optional": True},
        "sale": {"type": "bool", "select": "css:.sale"},
    },
}
PAGES = {
    "/product/1": LD.format(price="1,299.50")
    + "<ul><li>red<li>blue</ul><time datetime=2031-05-01>May</time><b class=stock>7 left</b><i class=sale>!</i>"
    + FILLER,
    "/product/2": "<b class=price>12,50 &euro;</b><ul><li>one</ul><time datetime=2020-01-02>then</time><h2>two</h2>",
    "/product/3": f"<b class=price>on request</b><ul><li>one</ul><time datetime=2020-01-02>then</time>{FILLER} three",
    "/about": FILLER,
}
FOUND = {
    "/product/1": {
        "price": 1299.5,
        "colours": ["red", "blue"],
        "released": "2031-05-01T00:00:00+00:00",
        "stock": 7,
        "sale": True,
    },
    "/product/2": {"price": 12.5, "colours": ["one"], "released": "2020-01-02T00:00:00+00:00", "sale": False},
    "/product/3": {"colours": ["one"], "released": "2020-01-02T00:00:00+00:00", "sale": False},
    "/about": None,
    "/product/4": None,
    "/": None,
}


@pytest.fixture(scope="module")
def shop() -> Iterator[LocalWeb]:
    with LocalWeb(SITE) as web:
        for path, markup in PAGES.items():
            web.put(SITE, path, Reply(markup, headers={"Content-Type": "text/html"}))
        web.put(SITE, "/product/4", Reply("<p>gone", status=404, headers={"Content-Type": "text/html"}))
        links = "".join(f"<a href={path}>{path}</a> " for path in [*PAGES, "/product/4"])
        web.put(SITE, "/", Reply(links, headers={"Content-Type": "text/html"}))
        yield web


@pytest.fixture(scope="module")
def crawled(
    shop: LocalWeb, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[CrawlResult, MailServer]]:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "rules.yaml").write_text(json.dumps([RULE]))  # JSON is YAML
    options = {"EXTRACT": str(folder / "rules.yaml"), "STRUCTURED_DATA": True}
    with MailServer() as mail:
        yield crawl_hosts([shop.url(SITE, "/")], folder, NOTIFY=mail.url, **options), mail


def columns(data_dir: Path, name: str) -> dict[str, Any]:
    """A JSON column of all pages by path."""
    with closing(sqlite3.connect(data_dir / "metadata.db")) as database:
        rows = database.execute(f"SELECT url, {name} FROM pages").fetchall()
    return {f"/{url.split('/', 3)[3]}": value and json.loads(value) for url, value in rows}


def test_rows_have_the_fields_of_their_pages(crawled: tuple[CrawlResult, MailServer]) -> None:
    """Of small pages, which the worker reads, and of large ones; not of errors and pages without a rule."""
    result, _ = crawled
    assert columns(result.data_dir, "extracted") == FOUND
    data = columns(result.data_dir, "structured_data")
    assert data["/product/1"] == {"json_ld": [{"@type": "Product", "offers": {"price": "1,299.50"}}]}
    assert data["/product/2"] is None


def test_what_is_missing_is_counted_and_told(crawled: tuple[CrawlResult, MailServer], shop: LocalWeb) -> None:
    result, mail = crawled
    figures = result.summary
    assert (figures["extracted"], figures["missing_fields"]) == ({"products": 3}, {"price": 1, "stock": 2})
    assert "  fields of   3 products; missing: price in 1, stock in 2\n" in result.stderr
    (stuck,) = result.rows("stuck")
    reason = "products: price is no float: 'on request'"
    assert (stuck["url"], stuck["kind"], stuck["reason"]) == (shop.url(SITE, "/product/3"), "SCHEMA", reason)
    (letter,) = mail.letters
    assert "Stuck pages of kind SCHEMA without a notification: 1" in letter.text and reason in letter.text


def test_exports_have_typed_columns(crawled: tuple[CrawlResult, MailServer], tmp_path: Path) -> None:
    result, _ = crawled
    options = (
        "-s",
        f"DATA_DIR={result.data_dir}",
        "-s",
        f"EXTRACT={json.dumps(RULE)}",
        "--partition",
        "none",
    )
    HERE.scrapy("export", "-o", str(tmp_path / "parquet"), "--format", "parquet", *options)
    table = pyarrow.parquet.read_table(next((tmp_path / "parquet").glob("*.parquet")))
    kinds = {name: str(table.schema.field(name).type) for name in RULE["fields"]}  # type: ignore[attr-defined]
    assert kinds | {"colours": ""} == {
        "price": "double",
        "colours": "",
        "released": "timestamp[us, tz=UTC]",
        "stock": "int64",
        "sale": "bool",
    }
    rows = {row["url"].split("/", 3)[3]: row for row in table.to_pylist()}
    assert (rows["product/1"]["price"], rows["product/1"]["colours"]) == (1299.5, ["red", "blue"])
    assert (rows["product/1"]["released"].year, rows["product/3"]["price"], rows["about"]["sale"]) == (
        2031,
        None,
        None,
    )
    HERE.scrapy("export", "-o", str(tmp_path / "csv"), "--format", "csv", *options)
    with next((tmp_path / "csv").glob("*.csv")).open(newline="") as file:
        cells = {row["url"].split("/", 3)[3]: row for row in csv.DictReader(file)}
    assert (cells["product/1"]["colours"], cells["product/2"]["sale"]) == ('["red", "blue"]', "False")
    taken = json.dumps({"match": "x", "fields": {"title": "css:h1"}})
    refused = HERE.scrapy(
        "export", "-o", str(tmp_path / "no"), *options[:2], "-s", f"EXTRACT={taken}", code=1
    )
    assert "EXTRACT, field 'title': exports have a column of this name already" in refused


def test_reparse_fills_in_the_fields(crawled: tuple[CrawlResult, MailServer], tmp_path: Path) -> None:
    result, _ = crawled
    execute(result.data_dir, "UPDATE pages SET extracted = NULL, structured_data = NULL")
    more = RULE | {"fields": {"price": RULE["fields"]["price"], "heading": "css:h2"}}  # type: ignore[index]
    done = summary(result.data_dir, "-s", f"EXTRACT={json.dumps(more)}")
    assert done["rows"] == 6
    found = columns(result.data_dir, "extracted")
    assert (found["/product/1"], found["/product/2"]) == (
        {"price": 1299.5},
        {"price": 12.5, "heading": "two"},
    )
    assert found["/product/3"] == {} and found["/about"] is None
    reparse(result.data_dir)
    assert not any(columns(result.data_dir, "extracted").values()), "without EXTRACT there are no fields"


SPIDER = """
import scrapy
from webcrawl import BroadSpider
from webcrawl.crawler.components import Reads
class Own(BroadSpider):
    name = "own"
    reads = Reads.TREE
    def parse(self, response, **kwargs):
        yield self.page(response)
        yield scrapy.Request(response.urljoin("/product/3"))
"""


def test_a_spider_that_reads_trees_and_a_second_crawl(
    shop: LocalWeb, run_spider: Callable[..., CrawlResult], crawl: Callable[..., CrawlResult]
) -> None:
    result = run_spider(
        SPIDER,
        shop.url(SITE, "/"),
        arguments={"seeds": shop.url(SITE, "/product/1")},
        EXTRACT=json.dumps(RULE),
    )
    assert columns(result.data_dir, "extracted") == {
        path: FOUND[path] for path in ("/product/1", "/product/3")
    }
    again = crawl([shop.url(SITE, "/")], CRAWL_ID="second", EXTRACT=json.dumps(RULE), HTML_PROCESS=False)
    assert columns(again.data_dir, "extracted") == FOUND
    assert again.summary["missing_fields"] == {"price": 1, "stock": 2}


def test_a_job_extracts_fields_too(shop: LocalWeb, operations: Operations) -> None:
    job = {
        "name": "shop",
        "cron": "0 0 1 1 *",
        "state": "ON",
        "spider": "broad",
        "arguments": {"scope": "host"},
    }
    operations.store.apply([{**job, "seeds": [shop.url(SITE, "/")], "settings": {"EXTRACT": [RULE]}}], BEGIN)
    operations.start("a")
    iteration = operations.run_job("shop")
    assert columns(Path(str(iteration.data_dir)), "extracted") == FOUND


def test_a_wrong_selector_ends_the_crawl_before_it_begins(crawl: Callable[..., CrawlResult]) -> None:
    wrong = {"name": "shop", "match": "x", "fields": {"price": "css:p["}}
    result = crawl([f"http://{SITE}:9/"], EXTRACT=json.dumps(wrong), status=2)
    assert (
        "EXTRACT, rule 'shop', field 'price': 'css:p[' cannot be used: it is no selector of CSS"
        in result.stderr
    )
    assert "Traceback" not in result.stderr
