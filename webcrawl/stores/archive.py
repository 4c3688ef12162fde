"""The archive of exchanges at STORE_URI."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from webcrawl.config import StoreConfig
from webcrawl.documents.exchange import Exchange
from webcrawl.documents.page import Page
from webcrawl.stores.conversions import Conversion
from webcrawl.stores.folder_archive import FolderArchive, FolderReader
from webcrawl.stores.objects.store import open_store
from webcrawl.stores.spooled_archive import SpooledArchive, SpooledReader
from webcrawl.stores.warc.files import ROBOTSTXT, StoredFile, WarcLocation
from webcrawl.stores.warc.reading import StoredRecord


class Records(Protocol):
    """Stored exchanges. `files` lists the finished WARC files and their indexes.

    `has_payload` returns whether there is a record with a payload, and may ask the object store. `read` reads a record
    into memory, `chunks` the gzip member of a record in chunks.
    """

    def files(self) -> Iterator[StoredFile]: ...
    def has_payload(self, location: WarcLocation) -> bool: ...
    def read(self, location: WarcLocation) -> StoredRecord: ...
    def chunks(self, location: WarcLocation) -> Iterator[bytes]: ...


class Archive(Records, Protocol):
    """Stores exchanges in WARC files; one thread at a time.

    A page survives a crash of the process once `write` has returned, and an exchange that is no page once
    `write_exchange` has, which also writes `facts` as a metadata record. Both raise StoreUnavailable when there is no
    room. Call `tend` about every second, also when no page is written: it returns the reason why writing should pause,
    or "".
    """

    def write(self, page: Page) -> WarcLocation: ...
    def write_exchange(self, exchange: Exchange, facts: Mapping[str, str]) -> WarcLocation: ...
    def tend(self) -> str: ...
    def close(self) -> None: ...


def open_archive(
    config: StoreConfig, *, prefix: str = "", software: str = "", info: Mapping[str, str] | None = None
) -> Archive:
    """Returns the archive at STORE_URI; raises StoreError when it cannot be used."""
    return _opened(config.pages, config, prefix=prefix, software=software, info=info)


def open_robotstxt(
    config: StoreConfig, *, prefix: str = "", software: str = "", info: Mapping[str, str] | None = None
) -> Archive:
    """Returns the archive of robots.txt fetches, beside that of pages, as Common Crawl has it; raises StoreError."""
    about = {"prefix": prefix, "software": software, "info": info}
    return _opened(config.robotstxt, config, suffix=ROBOTSTXT, **about)


def open_conversion(
    config: StoreConfig, conversion: Conversion, *, prefix: str = "", software: str = ""
) -> Archive:
    """Returns files of texts beside the archive, for pages whose exchange is archived; raises StoreError."""
    about = {"prefix": prefix, "software": software, "info": None}
    return _opened(conversion.uri, config, suffix=conversion.suffix, append=conversion.append, **about)


def _opened(uri: str, config: StoreConfig, **about: Any) -> Archive:
    store = open_store(uri, "STORE_URI", config.object_stores)
    files: dict[str, Any] = {
        **about,
        "roll_bytes": config.roll_bytes,
        "roll_seconds": config.roll_seconds,
        "min_free": config.min_free,
        "max_share": config.max_share,
    }
    if store.folder is not None:
        return FolderArchive(store.folder, **files)
    return SpooledArchive(store, spool_of(config, uri), spool_max=config.spool_max, **files)


def archive_to_read(config: StoreConfig) -> Records:
    """Returns the archive at STORE_URI for reading only, also where this process may not write.

    If it may write, files that dead processes left open are finished first. Raises StoreError for an unusable archive.
    """
    return _to_read(config.pages, config)


def robotstxt_to_read(config: StoreConfig) -> Records:
    """Returns the archive of robots.txt fetches, like `archive_to_read`."""
    return _to_read(config.robotstxt, config)


def _to_read(uri: str, config: StoreConfig) -> Records:
    store = open_store(uri, "STORE_URI", config.object_stores, check=False)
    written = spool_of(config, uri) if store.folder is None else store.folder
    if written.is_dir() and os.access(written, os.W_OK | os.X_OK):
        return _opened(uri, config)
    return SpooledReader(store, written) if store.folder is None else FolderReader(written)


def spool_of(config: StoreConfig, uri: str) -> Path:
    """Returns the folder for files that wait for the object store at a URI; another store has another folder."""
    parts = urlsplit(uri)
    server = parts.netloc.rpartition("@")[2]
    # no bucket has a colon in its name
    name = server if parts.scheme == "s3" else f"{parts.scheme}:{server}"
    return config.data_dir / "spool" / name / parts.path.strip("/")
