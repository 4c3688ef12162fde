"""Documents whose library is not installed are stored, counted, and read later from the archive."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from tests.crawls import CrawlResult, scrapy
from tests.documents import docx, image, ole, rar, wav
from tests.web import LocalWeb, Reply
from webcrawl.config.libraries import install_command

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"
GERMAN = "Wer am Morgen die Fenster öffnet, hört zuerst die Vögel und dann die Straßenbahn. " * 3
DOCUMENTS = {
    "/picture.png": ("image/png", image()),
    "/drawing.svg": ("image/svg+xml", b'<svg xmlns="http://www.w3.org/2000/svg"><title>Drawn</title></svg>'),
    "/sound.wav": ("audio/x-wav", wav()),
    "/old.doc": ("application/msword", ole()),
    "/files.rar": ("application/vnd.rar", rar("a.txt")),
    "/new.docx": ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", docx("Written")),
    "/german": ("text/html; charset=utf-8", f"<title>German</title><p>{GERMAN}".encode()),
    "/declared": ("text/html; charset=utf-8", b"<html lang=en><title>Declared</title>"),
}


def test_documents_without_their_library_are_stored_counted_and_read_later(
    local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    for path, (mime_type, body) in DOCUMENTS.items():
        web.put(SITE, path, Reply(body, headers={"Content-Type": mime_type}))
    links = "".join(f"<a href={path}>x</a>" for path in DOCUMENTS)
    home = web.put(SITE, "/", f"<html lang=en><title>Home</title>{links}")
    result = run_crawl("bare", home, SPIDER_MODULES="tests.crawl.bare_spider")
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    unread = {"/picture.png", "/sound.wav", "/old.doc", "/files.rar"}
    assert {path for path in DOCUMENTS if rows[path]["details"] is None} >= unread
    assert [row["processing_error"] for row in rows.values()] == [None] * len(rows)
    assert rows["/drawing.svg"]["title"] == "Drawn" and rows["/new.docx"]["title"] is not None
    assert rows["/german"]["language"] is None and rows["/declared"]["language"] == "en"
    expected = {"images": 1, "media": 1, "documents": 2}
    assert {name: result.summary["unread"][name] for name in expected} == expected
    command = install_command(result.summary["unread"])
    (line,) = (line for line in result.stderr.splitlines() if line.startswith("  not read "))
    assert line.endswith(f"to read them: {command}") and command.startswith(sys.executable)

    scrapy("reparse", "broad", "--crawl", "bare", "-s", f"DATA_DIR={tmp_path / 'data'}")
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    assert json.loads(rows["/picture.png"]["details"])["width"] == 64
    assert all(rows[path]["details"] for path in unread)
    assert rows["/german"]["language"] == "de"
