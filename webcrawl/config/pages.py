"""The parts of the settings for downloads, documents and duplicates."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from webcrawl.config.engine import data_dir
from webcrawl.config.records import from_setting, read, setting_values
from webcrawl.config.setting import Settings

_CORES_PER_READER = 4


@dataclass(frozen=True, slots=True)
class Spool:
    """Bodies with more than `memory` bytes are kept in unnamed files on the disk of `folder`."""

    folder: Path
    memory: int = 262_144


@dataclass(frozen=True, slots=True)
class FetchConfig:
    """Bounds of a download: seconds, bytes (0: no limit)."""

    spool: Spool
    sizes: Mapping[str, int]
    """MIME type, "text/*" or "*/*" -> bytes at which a body is truncated."""
    timeout: float = from_setting("DOWNLOAD_TIMEOUT")
    maxsize: int = from_setting("DOWNLOAD_MAXSIZE")
    warnsize: int = from_setting("DOWNLOAD_WARNSIZE")

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        spool, sizes = Spool(data_dir(settings) / "spool"), read(settings, "DOCUMENT_MAXSIZE")
        return cls(spool, sizes, **setting_values(cls, settings))


@dataclass(frozen=True, slots=True)
class ReaderConfig:
    """How many documents are read at a time; seconds for each, bytes of address space for each process."""

    processes: int
    seconds: float = from_setting("MIME_TIMEOUT")
    memory: int = from_setting("MIME_MEMORY")

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        processes = max(1, (os.cpu_count() or 1) // _CORES_PER_READER)
        return cls(processes, **setting_values(cls, settings))


@dataclass(frozen=True, slots=True)
class DuplicatesConfig:
    """What happens to pages whose texts differ in at most `distance` of the 64 bits of their SimHashes."""

    distance: int = from_setting("SIMHASH_DISTANCE")
    follow: bool = from_setting("NEAR_DUPLICATES_FOLLOW")
    hot_pages: int = from_setting("DUPLICATES_HOT_PAGES")
    """Texts and payloads that the engine keeps; 0 for any number."""
    drop: bool = False

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        return cls(drop=read(settings, "NEAR_DUPLICATES") == "drop", **setting_values(cls, settings))
