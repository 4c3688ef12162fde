"""The stores' part of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from webcrawl.config.engine import EngineConfig, data_dir
from webcrawl.config.object_stores import OBJECT_STORES, check_store_uri, object_stores
from webcrawl.config.records import from_setting, read, setting_values
from webcrawl.config.setting import Settings
from webcrawl.errors import ConfigurationError

_BESIDE = {
    "lake": "lake",
    "links": "links",
    "mined": "mined",
    "robotstxt": "robotstxt",
    "wet": "wet",
    "markdown": "markdown",
    "page_wet": "page-wet",
    "page_markdown": "page-markdown",
    "tables": "texts",
    "checkpoints": "checkpoints",
}
"""The folders beside the archive of pages, or below STORE_URI, by field."""
_DATABASES = ("sqlite", "postgresql")


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Where pages and their metadata are stored."""

    pages: str
    """URI of an object store: file:///folder, s3://bucket/prefix, or a scheme of OBJECT_STORES."""
    metadata: str
    """SQLAlchemy URL."""
    data_dir: Path
    roll_bytes: int = from_setting("WARC_ROLL_BYTES")
    roll_seconds: float = from_setting("WARC_ROLL_SECONDS")
    spool_max: int = from_setting("STORE_SPOOL_MAX_BYTES")
    min_free: int = from_setting("STORE_MIN_FREE_BYTES")
    max_share: float = from_setting("STORE_MAX_SHARE")
    quota: int = from_setting("STORE_QUOTA_BYTES")
    history: int = from_setting("METADATA_HISTORY")
    partitions: int = from_setting("METADATA_PARTITIONS")
    keeps_robotstxt: bool = from_setting("WARC_ROBOTSTXT")
    keeps_links: bool = from_setting("LINKS")
    listeners: int = from_setting("LISTENERS_MAXLEN")
    texts: str = from_setting("TEXT")
    """How the text of pages is stored: words separated by commas."""
    text_part: str = from_setting("TEXT_PART")
    has_markdown: bool = from_setting("TEXT_MARKDOWN")
    has_signals: bool = from_setting("TEXT_SIGNALS")
    object_stores: Mapping[str, str] = field(default_factory=lambda: OBJECT_STORES)
    """URI scheme -> path of an ObjectStore class."""
    lake: str = ""
    """URI of an object store for tables of Iceberg."""
    links: str = ""
    """URI of an object store for the link store."""
    mined: str = ""
    """URI of an object store for the results of mining."""
    robotstxt: str = ""
    """URI of an object store for the fetches of robots.txt."""
    wet: str = ""
    markdown: str = ""
    page_wet: str = ""
    page_markdown: str = ""
    """URIs of object stores for WET files and files of Markdown; the last two for whole pages, if both are stored."""
    tables: str = ""
    """URI of an object store for texts in Parquet files."""
    checkpoints: str = ""
    """URI of an object store for the checkpoints of CHECKPOINT_EVERY, in a folder for each crawl."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        folder = data_dir(settings)
        classes = object_stores(settings)
        uri = read(settings, "STORE_URI")
        pages = uri or (folder / "warc").resolve().as_uri()
        check_store_uri("STORE_URI", pages, classes)
        beside = {
            field: f"{uri.rstrip('/')}/{name}" if uri else (folder / name).resolve().as_uri()
            for field, name in _BESIDE.items()
        }
        values = setting_values(cls, settings) | beside
        return cls(pages, _database(settings, folder), folder, object_stores=classes, **values)

    @property
    def text_parts(self) -> tuple[str, ...]:
        """The parts of a page whose texts are stored, "main" and "page"; the first is that of column `text`."""
        return ("main", "page") if self.text_part == "both" else (self.text_part,)

    def makes_text(self, part: str) -> bool:
        """Returns whether the text of a part of the page is stored."""
        return bool(self.texts) and part in self.text_parts

    def makes_markdown(self, part: str) -> bool:
        """Returns whether a part of the page is made into Markdown."""
        return self.has_markdown and self.makes_text(part)


def _database(settings: Settings, folder: Path) -> str:
    uri = read(settings, "METADATA_URI") or "sqlite"
    if uri == "sqlite":
        return f"sqlite:///{(folder / 'metadata.db').resolve()}"
    scheme = uri.partition(":")[0]
    if scheme.partition("+")[0] not in _DATABASES:
        # the scheme only, because the rest may contain a password
        raise ConfigurationError(
            f"METADATA_URI must be sqlite:///path or postgresql://user@server/database, not {scheme}:..."
        )
    return str(uri)


def spill_uri(settings: Settings, engine: EngineConfig, stores: StoreConfig) -> str | None:
    """Returns the URI where the rest of long queues is stored; None if no store is shared by all workers."""
    uri = read(settings, "FRONTIER_SPILL_URI")
    if not uri and engine.url is None:
        return (engine.data_dir / "frontier").resolve().as_uri()
    if not uri:
        is_shared = urlsplit(stores.pages).scheme != "file"
        return f"{stores.pages.rstrip('/')}/frontier" if is_shared else None
    check_store_uri("FRONTIER_SPILL_URI", uri, stores.object_stores)
    return str(uri)
