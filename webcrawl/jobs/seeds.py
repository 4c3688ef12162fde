"""Reads the seeds of an iteration once, so that a restarted worker begins with the same seeds."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from webcrawl.config.passwords import without_password
from webcrawl.errors import CrawlError, StoreError, brief
from webcrawl.http.fetch import fetch
from webcrawl.jobs.definition import Seeds
from webcrawl.urls.seeds import seeds_in_lines

_SECONDS = 60.0
_LARGEST = 100_000_000
_LONGEST_ARGUMENT = 100_000
"""The longest argument that Linux passes to a process."""


async def seeds_file(seeds: Seeds, folder: Path) -> Path:
    """Returns the file with the seeds in the folder of an iteration, and writes the file if it does not exist.

    Raises StoreError if there is no seed or the seeds cannot be read.
    """
    path = folder / "seeds.txt"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    if seeds.file:
        try:
            shutil.copyfile(seeds.file, unfinished)
        except OSError as error:
            raise StoreError(f"cannot read the seeds in {seeds.file}: {error.strerror}") from error
    else:
        unfinished.write_bytes(await _fetched(seeds.url) if seeds.url else "\n".join(seeds.urls).encode())
    if next(_seeds_in(unfinished.read_bytes(), seeds), None) is None:
        raise StoreError(f"there is no seed in {_source(seeds)}")
    unfinished.replace(path)
    return path


async def seeds_argument(seeds: Seeds) -> str:
    """Returns the seeds as an argument, for spiders on other machines; raises StoreError for too many seeds."""
    lines = _seeds_in(await _fetched(seeds.url), seeds) if seeds.url else iter(seeds.urls)
    argument = ",".join(line.replace(",", "%2C") for line in lines)
    if not argument:
        raise StoreError(f"there is no seed in {_source(seeds)}")
    if len(argument.encode()) > _LONGEST_ARGUMENT:
        raise StoreError(f"seeds for nodes must be less than {_LONGEST_ARGUMENT:,} bytes in all")
    return argument


def _seeds_in(content: bytes, seeds: Seeds) -> Iterator[str]:
    try:
        return seeds_in_lines(content.decode("utf-8-sig").splitlines())
    except UnicodeDecodeError as error:
        raise StoreError(f"the seeds in {_source(seeds)} are no text in UTF-8") from error


def _source(seeds: Seeds) -> str:
    return seeds.file or without_password(seeds.url)


async def _fetched(url: str) -> bytes:
    """Returns the body of a response with status 200; raises StoreError."""
    shown = without_password(url)
    try:
        answer = await fetch(url, seconds=_SECONDS, largest=_LARGEST + 1)
    except (CrawlError, OSError, ValueError) as error:
        raise StoreError(
            f"cannot read the seeds at {shown}: {brief(error) or 'no answer in time'}"
        ) from error
    if answer.status != 200:
        raise StoreError(f"cannot read the seeds at {shown}: the answer is {answer.status}")
    if len(answer.body) > _LARGEST:
        raise StoreError(f"the seeds at {shown} have more than {_LARGEST:,} bytes")
    return answer.body
