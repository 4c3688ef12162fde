"""Reads states and figures of crawls where a user sees them, beside each other and beside the server's log.

    make read-states [ARGS="--pages 1000"]

A crawl of a site of known pages is stopped by a limit, then finished, and a second crawl checks its pages again. The
summary on the terminal, `summary.json`, the list of crawls and the HTTP API have to name the same states and to count
the same checks. The exit status is 1 if an answer is wrong.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.beside_truth import report
from benchmarks.command import command_line, scrapy
from benchmarks.known_site import SITE, KnownSite
from tests.crawls import CrawlResult, crawl_hosts
from tests.service.served import Served

_CHECKED = re.compile(r"again +([\d,]+) checked")
_ENDED = re.compile(r"^Crawl (\w+)\b", re.MULTILINE)


def by_list(data: Path) -> dict[str, dict[str, Any]]:
    """The crawls of a folder as `scrapy crawls` lists them, by name."""
    done = subprocess.run(
        scrapy("crawls", "--json", DATA_DIR=data), check=True, stdout=subprocess.PIPE, text=True
    )
    return {row["crawl"]: row for row in map(json.loads, done.stdout.splitlines())}


def by_api(data: Path, folder: Path) -> dict[str, dict[str, Any]]:
    """The same as `GET /v1/crawls` has them."""
    served = Served.start("--no-worker", folder=folder, settings={"DATA_DIR": data})
    try:
        return {row["crawl"]: row for row in served.client.get("/v1/crawls").json()["crawls"]}
    finally:
        served.stop()


def terminal(result: CrawlResult) -> str:
    """The state that the last lines on the terminal name."""
    states = _ENDED.findall(result.stderr)
    return states[-1] if states else ""


def checked(result: CrawlResult) -> int:
    counts = _CHECKED.findall(result.stderr)
    return int(counts[-1].replace(",", "")) if counts else 0


def main() -> int:
    options = command_line(__doc__, pages=(300, "pages of the site")).parse_args()
    site = KnownSite(options.pages)
    read: dict[str, dict[str, Any]] = {
        "terminal": {},
        "summary.json": {},
        "scrapy crawls": {},
        "HTTP API": {},
    }
    truth: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, site.web:
        folder = Path(name)
        site.publish()
        runs = (
            ("stopped", {"CRAWL_ID": "first", "CRAWL_MAX_PAGES": options.pages // 2}),
            ("finished", {"CRAWL_ID": "first"}),
            ("finished", {"CRAWL_ID": "again", "REVISIT": True}),
        )
        for number, (state, settings) in enumerate(runs, 1):
            before = len(site.web.hits)
            result = crawl_hosts([site.home], folder, timeout=600, **settings)
            listed = by_list(result.data_dir), by_api(result.data_dir, folder)
            question = f"state after run {number}"
            truth[question] = state
            read["terminal"][question] = terminal(result)
            crawl = str(settings["CRAWL_ID"])
            for program, crawls in zip(("scrapy crawls", "HTTP API"), listed, strict=True):
                read[program][question] = crawls[crawl]["state"]
            truth["checks of the last run"] = sum(
                hit.status == 304 for hit in site.web.pages(SITE) if hit in site.web.hits[before:]
            )
        summary = result.summary
        read["terminal"]["checks of the last run"] = checked(result)
        read["summary.json"]["checks of the last run"] = summary["unchanged"]
        for program, crawls in zip(("scrapy crawls", "HTTP API"), listed, strict=True):
            read[program]["checks of the last run"] = crawls["again"]["checked"]
    return min(1, report(truth, read))


if __name__ == "__main__":
    sys.exit(main())
