"""The folder of an index.

    index.json   the version; written first, to tell an index from other folders
    pages/       the files of tantivy
    updated      an empty file: its time is that of the latest complete update
    crawls.npz   which crawl requested each page last, so that a new crawl changes no document
    words.npz    the words of the pages, for corrections
    plan-*.db    the plan of an update while it runs

One process writes at a time, and holds a lock (flock) on index.json. Meanwhile, searches read the last commit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from webcrawl.documents.disk import failure
from webcrawl.errors import CrawlError, StoreError, brief
from webcrawl.search.schema import VERSION, WORDS, schema, tantivy
from webcrawl.search.words import analyzer
from webcrawl.stores.file_lock import locked

_OPTION = re.compile(r"\. (?:None|Some\(.*\))$", re.DOTALL)
_OF_SYSTEM = re.compile(r'message: "([^"]+)"')
_ABOUT, _UNFINISHED, _PAGES, _UPDATED = "index.json", "index.json.unfinished", "pages", "updated"


def updated_at(folder: Path) -> datetime | None:
    """Returns when an index was last brought up to date completely; None if there is none, or it is not complete."""
    try:
        return datetime.fromtimestamp((folder / _UPDATED).stat().st_mtime, UTC)
    except OSError:
        return None


def note_update(folder: Path) -> None:
    """Notes that an index is up to date."""
    (folder / _UPDATED).touch()


def open_to_read(folder: Path) -> Any:
    """Returns the tantivy Index of a folder; raises StoreError for a missing or damaged index."""
    tantivy()
    if not (folder / _ABOUT).exists():
        raise StoreError(f"there is no index in {folder}: `scrapy search --update` makes it")
    _check_version(folder)
    with damages(folder):
        if not (folder / _PAGES / "meta.json").exists():
            raise StoreError(f"the index in {folder} is not complete: `scrapy search --update` goes on")
        return _opened(folder)


@contextmanager
def open_to_write(folder: Path, *, again: bool = False) -> Iterator[Any]:
    """Yields the tantivy Index of a folder. Makes a new index if there is none, or with `again`.

    Raises StoreError if another process writes to the index, the index is damaged, or the folder has other files.
    """
    with ExitStack() as opened:
        try:
            _make(folder)
            lock = opened.enter_context(locked(folder / _ABOUT))
            if lock is None:
                raise StoreError(f"another process writes to the index in {folder}: wait until it has ended")
            if again:
                (folder / _UPDATED).unlink(missing_ok=True)
                shutil.rmtree(folder / _PAGES, ignore_errors=True)
                os.truncate(lock, 0)
                os.write(lock, _about())
            for left in folder.glob("plan-*"):
                left.unlink()
            (folder / _PAGES).mkdir(exist_ok=True)
        except OSError as error:
            raise failure("write", folder, error) from error
        _check_version(folder)
        with damages(folder):
            index = _opened(folder)
        yield index


@contextmanager
def damages(folder: Path) -> Iterator[None]:
    """Converts errors of tantivy about its files into StoreError with the folder."""
    try:
        yield
    except CrawlError:
        raise
    except BaseException as error:
        # a panic of tantivy derives from BaseException, not from Exception
        if not isinstance(error, ValueError | OSError) and type(error).__name__ != "PanicException":
            raise
        # tantivy appends an optional explanation as Rust writes it: None, or Some("...")
        reason = brief(_OPTION.sub("", str(error)))
        if "Lockfile" in reason and "IoError" in reason:
            why = match[1] if (match := _OF_SYSTEM.search(reason)) else reason
            raise StoreError(
                f"cannot search in {folder}: tantivy cannot open its lock file in {folder / _PAGES} ({why}). Give "
                "yourself the right to write there, or copy the index"
            ) from error
        raise StoreError(
            f"the index in {folder} cannot be used: {reason}. If it is damaged, make it anew by "
            "`scrapy search --update --again`"
        ) from error


def use_words_of(index: Any, language: str | None, text: str) -> None:
    """Makes the index split the text of the next query or snippet into the words of a language."""
    index.register_tokenizer(WORDS, analyzer(language, text))


def _opened(folder: Path) -> Any:
    index = tantivy().Index(schema(), str(folder / _PAGES), reuse=True)
    use_words_of(index, None, "")
    return index


def _make(folder: Path) -> None:
    """Marks an empty folder as an index, without the files of tantivy."""
    folder.mkdir(parents=True, exist_ok=True)
    about = folder / _ABOUT
    if about.exists():
        return
    if any(path.name != _UNFINISHED for path in folder.iterdir()):
        raise StoreError(f"{folder} is not empty, and no index: name another folder")
    unfinished = folder / _UNFINISHED
    unfinished.write_bytes(_about())
    unfinished.rename(about)


def _about() -> bytes:
    return json.dumps({"version": VERSION}).encode()


def _check_version(folder: Path) -> None:
    try:
        version = json.loads((folder / _ABOUT).read_bytes())["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{folder / _ABOUT} is damaged: make the index anew by `scrapy search --update --again`"
        ) from error
    if version != VERSION:
        raise StoreError(
            f"the index in {folder} is of another version of webcrawl: make it anew by `scrapy search --update --again`"
        )
