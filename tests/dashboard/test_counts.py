"""One crawl of the demo has the same numbers by the same words wherever they are shown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from parsel import Selector
from rich.console import Console

from tests.crawls import Crawl, CrawlResult, scrapy
from tests.dashboard.site import Dashboard
from webcrawl.crawler.report.displays import plain_line
from webcrawl.crawler.report.live_panel import panel
from webcrawl.demo import FIRST_PORT, demo_settings, demo_web
from webcrawl.documents.values import size
from webcrawl.frontier.checkpoint.periodic import CheckpointState
from webcrawl.frontier.figures import CrawlFigures


@dataclass(frozen=True)
class Demo:
    """The demo, crawled to its end."""

    seeds: list[str]
    result: CrawlResult

    @property
    def figures(self) -> CrawlFigures:
        names = [field.name for field in fields(CrawlFigures)]
        values = {name: self.result.summary[name] for name in names}
        return CrawlFigures(**values | {"checkpoint": CheckpointState(**values["checkpoint"])})

    def command(self, *words: str) -> str:
        """What a command prints."""
        return scrapy(*words, "-d", str(self.result.data_dir)).stdout


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    folder = tmp_path_factory.mktemp("demo")
    with demo_web(FIRST_PORT + 600) as seeds:
        settings: dict[str, Any] = {**demo_settings(), "DOWNLOAD_DELAY": 0.01, "PROGRESS": "plain"}
        settings["CHECKPOINT_EVERY"] = 0.5
        crawl = Crawl.start("broad", seeds, folder=folder, data_dir=folder / "data", **settings)
        yield Demo(seeds, crawl.wait())


def shown(lines: str) -> dict[str, str]:
    """Label -> number, from a table of two columns."""
    cells = re.findall(r"^. ([\w .()-]+?) +│ (.+?) +│$", lines, re.MULTILINE)
    return dict(cells)


def test_the_figures_fit_each_other(demo: Demo) -> None:
    now = demo.figures
    responses = sum(now.responses.values())
    errors = sum(number for status, number in now.responses.items() if status >= "400")
    redirects = sum(number for status, number in now.responses.items() if status[0] == "3")
    assert now.pages + redirects + errors == responses == now.archived
    assert now.stored == now.seen_urls == responses + now.robots_denied + now.failed
    assert now.dead_letters == now.failed == 1
    assert sum(type_["pages"] for type_ in now.types.values()) == responses
    assert now.exact_duplicates and now.near_duplicates and not now.soft_404


def test_the_terminal_shows_them(demo: Demo) -> None:
    now, printed = demo.figures, demo.result.stderr
    duplicates = now.exact_duplicates + now.near_duplicates
    errors = now.responses["404"]
    statuses = ", ".join(f"{number} x {status}" for status, number in now.responses.items())
    responses = sum(now.responses.values())
    for line in (
        f"  pages       {now.pages} from {now.hosts} hosts in ",
        f"  responses   {responses} ({statuses}); {size(now.bytes)}",
        f"  documents   text/html         {now.types['text/html']['pages']} ",
        f"  URLs        {now.seen_urls} seen, 0 queued, 1 dead letter",
        f"  errors      {errors} HTTP errors, 1 failed, {now.retried} retry, ",
        f"  stored      {now.stored} rows, {now.archived} exchanges",
    ):
        assert line in printed
    assert re.match(
        rf"{now.pages} pages .*, {errors} HTTP errors, 1 failed, {duplicates} dup", plain_line(now, 1)
    )
    console = Console(width=100)
    with console.capture() as capture:
        console.print(panel(console, "broad", now, 1.0))
    cells = re.split(r"  +|[│\n]", capture.get())
    words = [cell.strip() for cell in cells if cell.strip()]
    for label, number in {
        "pages": now.pages,
        "hosts": now.hosts,
        "duplicates": duplicates,
        "seen URLs": now.seen_urls,
        "HTTP errors": errors,
        "soft 404": now.soft_404,
        "failed": 1,
        "dead letters": 1,
    }.items():
        assert words[words.index(label) + 1] == str(number)
    assert words[words.index("received") + 1] == size(now.bytes)


def test_the_commands_show_them(demo: Demo, tmp_path: Path) -> None:
    now = demo.figures
    table = shown(demo.command("status"))
    assert table["pages"] == str(now.pages)
    assert table["responses"] == str(sum(now.responses.values()))
    assert table["HTTP errors"] == str(now.responses["404"])
    assert (table["rows"], table["exchanges"]) == (str(now.stored), str(now.archived))
    hosts = [shown(demo.command("host", seed.rstrip("/"))) for seed in demo.seeds]
    assert sum(int(host["pages"]) for host in hosts) == now.pages
    assert len(demo.result.rows()) == now.stored
    assert demo.command("export", "-o", str(tmp_path / "rows")).startswith(f"{now.stored} rows in ")
    packed = demo.command("wacz", "-o", str(tmp_path / "demo.wacz"))
    assert packed.startswith(
        f"Wrote {now.archived + len(demo.seeds)} exchanges, with those of robots.txt, of "
    )
    html = now.types["text/html"]["pages"] - sum(now.responses.values()) + now.pages
    assert packed.endswith(f" Its list has {html} HTML pages.\n")
    assert demo.command("index").startswith(f"{now.pages} pages in the index")


def test_the_metrics_show_them(demo: Demo) -> None:
    now, numbers = demo.figures, {}
    for line in demo.command("metrics").splitlines():
        if line.startswith("webcrawl_"):
            name, _, number = line.rpartition(" ")
            numbers[name.replace('crawl="broad",', "").replace('{crawl="broad"}', "")] = float(number)
    assert numbers["webcrawl_pages_total"] == now.pages
    assert numbers["webcrawl_stored_rows_total"] == now.stored
    assert numbers["webcrawl_archived_total"] == now.archived
    assert numbers["webcrawl_seen_urls"] == now.seen_urls
    for status, number in now.responses.items():
        assert numbers[f'webcrawl_responses_total{{status="{status}"}}'] == number
    for mime_type, counts in now.types.items():
        assert numbers[f'webcrawl_documents_total{{type="{mime_type}"}}'] == counts["pages"]


def test_the_dashboard_shows_them(demo: Demo, start_dashboard: Callable[..., Dashboard]) -> None:
    now = demo.figures
    dashboard = start_dashboard(data_dir=demo.result.data_dir)
    with urlopen(f"{dashboard.url}/crawls/broad") as answer:
        page = Selector(answer.read().decode())
    figures = {
        "".join(box.css("dt ::text").getall()).strip(): "".join(box.css("dd ::text").getall()).strip()
        for box in page.css("dl.figures div")
    }
    assert figures["pages"] == str(now.pages)
    assert figures["HTTP errors"] == str(now.responses["404"])
    assert (figures["failed"], figures["dead letters"], figures["soft 404"]) == ("1", "1", "0")
    assert figures["seen URLs"] == str(now.seen_urls)
    by_type = page.xpath(
        "//section[h2[.='Documents by type']]//tr[th='text/html']/td[@class='number']/text()"
    )
    assert by_type.get("").strip() == str(now.types["text/html"]["pages"])
    text = " ".join(page.css("main ::text").getall())
    assert f"{now.archived} exchanges archived" in text and f"{now.stored} rows written" in text
    assert now.checkpoint is not None and now.checkpoint.at and now.checkpoint.uri in text


def test_the_json_of_commands_keeps_its_names(demo: Demo) -> None:
    summary = demo.result.summary
    told = json.loads(demo.command("status", "--json"))
    for name in ("pages", "responses", "types", "archived", "stored", "seen_urls", "failed", "dead_letters"):
        assert told[name] == summary[name]
