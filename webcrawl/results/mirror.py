"""Writes a browsable copy of stored pages: files with safe names, and links to each other."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

import xxhash

from webcrawl.documents.html.facts import is_html
from webcrawl.errors import StoreError
from webcrawl.results.rewriting import rewritten_page, rewritten_sheet
from webcrawl.results.variants import Variants
from webcrawl.stores.locations import Row
from webcrawl.stores.stored_pages import StoredPages

_LONGEST_NAME = 120
_MOST_HOPS = 10
_MOST_FOLDERS, _LONGEST_PATH = 100, 2_000
"""Systems open paths of 4,096 bytes at most, with the folder of the mirror."""
# characters that some file systems refuse in names, and "%" and "#", which must be escaped in addresses
_UNSAFE = re.compile(r'[\x00-\x20<>:"/\\|?*%#\x7f]+')
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)")
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}$")
# browsers know the types of other files by their contents
_SUFFIXES = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/css": ".css",
    "image/svg+xml": ".svg",
}


class Mirrored(NamedTuple):
    """The numbers of files written, of pages not in the archive, and of pages whose path is too deep or long."""

    files: int
    missing: int
    too_deep: int


def local_path(url: str, mime_type: str) -> str:
    """Returns the path of the file of a URL in the mirror, with safe names made from its host, path and query.

    HTML, style sheets and SVG get a suffix that browsers know. Several URLs may have the same path; see `paths`.
    """
    parts = urlsplit(url)
    host = _name(parts.netloc.replace(":", "_"))
    *folders, file = [unquote(part, errors="replace") for part in parts.path.split("/")[1:]] or [""]
    names = [_name(folder) for folder in folders if folder]
    stem = file or "index"
    if parts.query:
        stem = f"{stem}@{unquote(parts.query, errors='replace')}"
    suffix = _SUFFIXES.get(mime_type, "")
    if suffix and stem.lower().endswith((suffix, ".htm", ".xhtml")):
        suffix = ""
    return "/".join([host, *names, _name(stem + suffix)])


def paths(pages: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns the paths of files by URL, for pairs of URL and MIME type.

    Paths are unique, also on case-insensitive file systems, and no file has the path of a folder. URLs whose path has
    more than 100 folders or 2,000 bytes are left out.
    """
    every = ((url, local_path(url, mime_type)) for url, mime_type in pages)
    wanted = {url: path for url, path in every if _fits(path)}
    folders = {parent.lower() for path in wanted.values() for parent in _parents(path)}
    taken: set[str] = set()
    for url, path in wanted.items():
        if path.lower() in folders or path.lower() in taken:
            path = wanted[url] = _numbered(path, url)
        taken.add(path.lower())
    return wanted


def write_mirror(stored: StoredPages, folder: Path, variants: Variants, crawl: str | None = None) -> Mirrored:
    """Writes the archived pages with status 200 that `crawl` tried last (None: all) to `folder`.

    `variants` gets the URLs of these pages. Raises StoreError if a file cannot be written.
    """
    pages, moved = [], {}
    for row in stored.rows(crawl):
        if row["status"] == 200 and row["warc_file"]:
            pages.append((row["url"], row["mime_type"] or ""))
        elif row["state"] == "redirected":
            moved[row["url"]] = row["final_url"]
    files = paths(pages)
    variants.add([*files, *moved])
    written = missing = 0
    for row in stored.rows(crawl):
        if (path := files.get(row["url"])) is None:
            continue
        content = _content(
            stored, row, partial(_address, path=path, files=files, moved=moved, variants=variants)
        )
        if content is None:
            missing += 1
            continue
        try:
            _write(folder / path, content)
        except OSError as error:
            raise StoreError(f"cannot write {folder / path}: {error.strerror or error}") from error
        written += 1
    return Mirrored(written, missing, len(pages) - len(files))


def _content(stored: StoredPages, row: Row, address: Callable[[str], str | None]) -> Iterable[bytes] | None:
    document = stored.document(row)
    if document is None:
        return None
    if is_html(row["mime_type"]) and document.refused is None:
        return (rewritten_page(document, address),)
    if row["mime_type"] == "text/css":
        return (rewritten_sheet(document, address),)
    return document.chunks()


def _address(
    url: str, path: str, files: Mapping[str, str], moved: Mapping[str, str], variants: Variants
) -> str | None:
    """Returns the relative address of the file of a URL from the file at `path`; None if there is no such file."""
    for _ in range(_MOST_HOPS):
        known = next((form for form in variants.of(url) if form in files or form in moved), url)
        if (target := files.get(known)) is not None:
            return quote(posixpath.relpath(target, posixpath.dirname(path)), safe="/@~!$&'()*+,;=-._")
        if moved.get(known, known) == known:
            return None
        url = moved[known]
    return None


def _name(text: str) -> str:
    """Returns a path segment as a valid name on all file systems: at most 120 bytes, with a hash if it was longer."""
    name = _UNSAFE.sub("_", text).strip(". ") or "_"
    if _RESERVED.match(name):
        name = f"_{name}"
    raw = name.encode("utf-8", "replace")
    if len(raw) <= _LONGEST_NAME:
        return raw.decode()
    suffix = match[0] if (match := _SUFFIX.search(name)) else ""
    return raw[: _LONGEST_NAME - 26].decode("utf-8", "ignore") + f"~{_hash(text)}{suffix}"


def _fits(path: str) -> bool:
    return path.count("/") <= _MOST_FOLDERS and len(path.encode()) <= _LONGEST_PATH


def _numbered(path: str, url: str) -> str:
    suffix = match[0] if (match := _SUFFIX.search(path)) else ""
    return f"{path.removesuffix(suffix)}~{_hash(url)}{suffix}"


def _hash(text: str) -> str:
    return xxhash.xxh3_64_hexdigest(text.encode("utf-8", "surrogatepass"))


def _parents(path: str) -> Iterable[str]:
    while path := posixpath.dirname(path):
        yield path


def _write(path: Path, content: Iterable[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{os.getpid()}.unfinished")
    with unfinished.open("wb") as file:
        file.writelines(content)
    unfinished.replace(path)
