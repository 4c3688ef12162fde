"""Prints a crawl in pieces, as JSON Lines: `python examples/language_model/chunks.py DATA_DIR`. Needs pyarrow.

A piece ends before a heading, or at the last paragraph that fits into `--characters`. It has the URL, the title and the
headings above it, and the dates of its page, so that an answer can name its source.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

_COLUMNS = ["url", "title", "language", "fetched_at", "published_at", "digest", "text", "markdown", "status"]
_HEADING = re.compile(r"(#{1,6}) (.+)")
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+|\n")


def pages(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields the latest text of each page that answered with 2xx."""
    table = ds.dataset(sorted(map(str, (folder / "texts").glob("*.parquet")))).to_table(_COLUMNS)
    latest = {row["url"]: row for row in sorted(table.to_pylist(), key=lambda row: row["fetched_at"])}
    yield from (row for row in latest.values() if 200 <= row["status"] < 300)


def chunks(page: dict[str, Any], characters: int) -> Iterator[dict[str, Any]]:
    """Yields the pieces of a page, in their order."""
    headings: list[str] = []
    number = 0
    for section in sections(page["markdown"] or page["text"] or ""):
        if heading := _HEADING.match(section):
            headings = [*headings[: len(heading[1]) - 1], heading[2]]
        for text in packed(paragraphs(section, characters), characters):
            yield {
                "id": f"{page['digest']}#{number}",
                "url": page["url"],
                "title": page["title"],
                "headings": headings,
                "language": page["language"],
                "fetched_at": page["fetched_at"].isoformat(),
                "published_at": page["published_at"] and page["published_at"].isoformat(),
                "text": text,
            }
            number += 1


def sections(text: str) -> Iterator[str]:
    """Yields the parts between headings; a line in a block of code is no heading."""
    lines: list[str] = []
    in_code = False
    for line in text.splitlines():
        in_code ^= line.lstrip().startswith("```")
        if lines and not in_code and _HEADING.match(line):
            yield "\n".join(lines)
            lines = []
        lines.append(line)
    yield "\n".join(lines)


def paragraphs(section: str, characters: int) -> Iterator[str]:
    """Yields the paragraphs of a section; one that is too long is cut after sentences, or else anywhere."""
    for paragraph in filter(None, map(str.strip, section.split("\n\n"))):
        parts = [paragraph] if len(paragraph) <= characters else _SENTENCE.split(paragraph)
        for part in parts:
            yield from (part[start : start + characters] for start in range(0, len(part), characters))


def packed(parts: Iterator[str], characters: int) -> Iterator[str]:
    """Joins parts as long as they fit."""
    text = ""
    for part in parts:
        if text and len(text) + len(part) + 2 > characters:
            yield text
            text = ""
        text = f"{text}\n\n{part}" if text else part
    if text:
        yield text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="DATA_DIR of the crawl, with TEXT=parquet")
    parser.add_argument(
        "--characters", type=int, default=1_500, help="the most of a piece (default: %(default)s)"
    )
    options = parser.parse_args()
    for page in pages(options.folder):
        for chunk in chunks(page, options.characters):
            sys.stdout.write(json.dumps(chunk, ensure_ascii=False) + "\n")
