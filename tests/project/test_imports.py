"""Scrapy imports every command for each command: what only a crawl needs must not be paid for by `scrapy list`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crawls import CHECKOUT, NO_NAMES

PROGRAM = """
import sys
from scrapy.cmdline import execute
try:
    execute(["scrapy", *sys.argv[1:]])
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""
SLOW = {
    "PIL",
    "aioftp",
    "boto3",
    "chardet",
    "feedparser",
    "numpy",
    "playwright",
    "pycld2",
    "pymediainfo",
    "pypdfium2",
}
SLOW |= {"scrapy_playwright", "simhash", "sqlalchemy"}
OF_NO_USE = {"playwright", "pymediainfo", "pypdfium2", "valkey"}
OF_A_SESSION = {"aiodns", "aiohttp", "redis", "rich"}


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [(["list"], SLOW), (["frontier", "--help"], SLOW | OF_A_SESSION)],
    ids=["list", "frontier --help"],
)
def test_what_is_slow_to_import_is_imported_where_it_is_used(words: list[str], unwanted: set[str]) -> None:
    command = [sys.executable, "-c", PROGRAM, *words]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=True)
    imported = set(done.stderr.split())
    assert "webcrawl.commands.frontier" in imported
    assert not imported & unwanted


def test_a_crawl_imports_no_client_that_it_does_not_use(tmp_path: Path) -> None:
    """It costs each start; without a good seed the crawl ends when all its components are there."""
    settings = ("-s", f"DATA_DIR={tmp_path}", "-s", f"DNS_SERVERS={NO_NAMES}")
    command = [sys.executable, "-c", PROGRAM, "crawl", "broad", "-a", "seeds=nonsense", *settings]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=True)
    imported = set(done.stderr.split())
    assert {"webcrawl.engine.embedded", "aiohttp"} <= imported
    assert not imported & OF_NO_USE
