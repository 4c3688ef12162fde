"""A command imports what it uses: no other command, and nothing slow that only a crawl needs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawls import CHECKOUT, NO_NAMES
from tests.web import LocalWeb

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
    "py3langid",
    "pycld2",
    "pymediainfo",
    "pypdfium2",
}
SLOW |= {"scrapy_playwright", "simhash", "sqlalchemy"}
UNUSED_CLIENTS = {"aiohttp", "playwright", "pymediainfo", "pypdfium2", "rich", "valkey"}
OF_EXTRAS = {
    "apprise",
    "boto3",
    "botocore",
    "curl_cffi",
    "duckdb",
    "jinja2",
    "jsonschema",
    "olefile",
    "psycopg",
    "pyarrow",
}
OF_EXTRAS |= {"prometheus_client", "rarfile", "scipy", "sklearn", "starlette", "tantivy", "uvicorn", "yaml"}
UNUSED = (
    {"sqlalchemy.dialects.postgresql"}
    | (SLOW - {"numpy", "py3langid", "pycld2", "simhash", "sqlalchemy"})
    | UNUSED_CLIENTS
    | OF_EXTRAS
)
"""Libraries that only documents of some types, other stores and optional parts need."""
CLIENTS = {"aiodns", "httptools", "redis", "rich"}
CRAWLING = {"aiodns", "httptools", "webcrawl.crawler.session", "webcrawl.worker", "webcrawl.documents.html"}


@pytest.mark.parametrize(
    ("words", "unwanted"),
    [(["list"], SLOW), (["status", "--help"], SLOW | CLIENTS), (["pause"], SLOW | CRAWLING)],
    ids=["list", "frontier --help", "pause"],
)
def test_slow_imports_are_deferred_to_where_they_are_used(
    words: list[str], unwanted: set[str], tmp_path: Path
) -> None:
    command = [sys.executable, "-c", PROGRAM, *words, "-s", f"DATA_DIR={tmp_path}"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=180, check=True)
    imported = set(done.stderr.split())
    assert {name for name in imported if name.startswith("webcrawl.commands.")} == {
        f"webcrawl.commands.{words[0]}"
    }
    assert not imported & unwanted


def test_a_crawl_of_a_page_imports_only_what_it_uses(
    local_web: Callable[..., LocalWeb], tmp_path: Path
) -> None:
    """Each import slows every start."""
    web = local_web("127.0.1.1")
    web.put("127.0.1.1", "/", "<title>home</title><p>A page.</p>")
    seeds = f"seeds={web.url('127.0.1.1')}"
    settings = ("-s", f"DATA_DIR={tmp_path}", "-s", f"DNS_SERVERS={NO_NAMES}")
    program = f"{PROGRAM}    import gc; print(gc.isenabled(), *gc.get_threshold())"
    command = [sys.executable, "-c", program, "crawl", "broad", "-a", seeds, *settings]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=180, check=True)
    *_, last = done.stderr.splitlines()
    imported = set(last.split())
    assert {"webcrawl.engine.embedded", "httptools", "sqlalchemy"} <= imported
    assert "/" in web.paths("127.0.1.1")
    assert imported & UNUSED == set()
    assert done.stdout.splitlines()[-1] == "True 100000 1 1", "garbage is collected again once the crawl runs"


KEEPER, HTML = "webcrawl.engine.keeper", "webcrawl.documents.html.outline_child"
NESTED = f"{HTML}.Document(b'<div>' * 9_000, 'text/html', None, 'http://a.example/').html"
PIPELINES = "webcrawl.pipelines.metadata"
SEALING = "webcrawl.stores.sealed.sealing"


@pytest.mark.parametrize(
    ("program", "wanted", "unwanted"),
    [
        (
            f"import {KEEPER}",
            KEEPER,
            {"asyncio", "hashlib", "logging", "random", "tempfile", "webcrawl.engine.embedded"},
        ),
        (f"import {HTML}", HTML, {"asyncio", "hashlib", "numpy", "ssl", "tempfile", "webcrawl.config"}),
        (f"import {HTML}; {NESTED}", "webcrawl.documents.markup_bounds", {"hashlib", "numpy"}),
        (
            "from scrapy.utils.misc import load_object; from webcrawl.config import parts;"
            "[load_object(path) for path in parts.ITEM_PIPELINES]",
            PIPELINES,
            {"numpy", "pyarrow", "simhash", "sqlalchemy"},
        ),
        (f"from {SEALING} import to_merge; to_merge([2, 1])", SEALING, {"numpy"}),
    ],
    ids=["keeper", "HTML", "HTML that nests", "pipelines that are off", "runs to merge"],
)
def test_processes_of_a_crawl_import_little(program: str, wanted: str, unwanted: set[str]) -> None:
    """Each crawl starts a keeper and a process for HTML; Scrapy imports pipelines that are off too."""
    command = [sys.executable, "-c", f"import sys; {program}; print(*sys.modules)"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert wanted in imported
    assert not imported & unwanted


@pytest.mark.parametrize(("chosen", "ours", "theirs"), [(700, 10_000, 700), (20_000, 20_000, 20_000)])
def test_garbage_is_collected_rarely_in_our_projects_alone(
    chosen: int, ours: int, theirs: int, tmp_path: Path
) -> None:
    """Modules that are imported are most objects of a start, and no garbage."""
    program = f"import gc; gc.set_threshold({chosen})\n" + PROGRAM.replace(
        "*sys.modules", "gc.get_threshold()[0]"
    )
    for folder, expected in ((CHECKOUT, ours), (tmp_path, theirs)):
        done = subprocess.run(
            [sys.executable, "-c", program, "version"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            capture_output=True,
            text=True,
            timeout=180,
            check=True,
        )
        assert int(done.stderr) == expected
