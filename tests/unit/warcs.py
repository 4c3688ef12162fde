"""Exchanges for WARC tests, and functions that read WARC files with warcio."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from warcio.archiveiterator import ArchiveIterator

from webcrawl.documents.body import Body
from webcrawl.documents.exchange import Exchange

NOW = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"


def exchange(
    path: str = "", payload: bytes = b"<p>body", headers: bytes = b"", truncated: str | None = None
) -> Exchange:
    return Exchange(
        url=f"http://www.example.org/{path}",
        method="GET",
        request_head=b"GET /%s HTTP/1.1\r\nHost: www.example.org\r\n\r\n" % path.encode(),
        request_body=b"",
        status=200,
        response_head=HEAD + headers + b"\r\n",
        payload=Body(payload),
        ip_address="192.0.2.1",
        fetched_at=NOW,
        truncated=truncated,
    )


def warcs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.warc.gz"))


def check(path: Path) -> None:
    """Runs `warcio check`: every digest is right, and no bytes remain."""
    run = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", str(path)], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stdout
    assert not run.stdout


def replay(path: Path) -> list[tuple[str, str | None, bytes]]:
    """(type, URL, decoded body) of each record as read by warcio, with digests checked."""
    with path.open("rb") as file:
        return [
            (
                record.rec_type,
                record.rec_headers.get_header("WARC-Target-URI"),
                record.content_stream().read(),
            )
            for record in ArchiveIterator(file, check_digests="raise")
        ]


def one_file(folder: Path) -> Path:
    (path,) = warcs(folder)
    return path
