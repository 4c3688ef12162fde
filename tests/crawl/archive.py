"""Reads the WARC files of a crawl with an independent library, warcio."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from warcio.archiveiterator import ArchiveIterator


class Record(NamedTuple):
    """One WARC record; `body` is the payload with its content encoding removed."""

    kind: str
    url: str
    headers: Any
    body: bytes


def record_at(data_dir: Path, row: Mapping[str, Any]) -> Record:
    """Returns the record at a row's warc_file and warc_offset."""
    with (data_dir / "warc" / row["warc_file"]).open("rb") as file:
        file.seek(row["warc_offset"])
        record = next(iter(ArchiveIterator(file)))
        body = record.content_stream().read()
        return Record(record.rec_type, record.rec_headers["WARC-Target-URI"], record.http_headers, body)


def records(data_dir: Path, kind: str) -> list[str]:
    """Returns the URLs of all records of a type, including duplicates."""
    found = []
    for path in sorted((data_dir / "warc").rglob("*.warc.gz")):
        with path.open("rb") as file:
            found += [
                record.rec_headers["WARC-Target-URI"]
                for record in ArchiveIterator(file)
                if record.rec_type == kind
            ]
    return found


def check(data_dir: Path) -> None:
    """Runs `warcio check`: every file can be read to its end, and every digest matches."""
    # relative, because the name of a test may contain "fail"
    files = [str(path.relative_to(data_dir)) for path in sorted((data_dir / "warc").rglob("*.warc.gz"))]
    assert files
    done = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", "-v", *files],
        cwd=data_dir,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "FAIL" not in done.stdout.upper(), done.stdout[-3000:]
