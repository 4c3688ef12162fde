"""Notices about disks and spools of this machine that are nearly full."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from sqlalchemy.engine import make_url

from webcrawl.alarms.outbox import Notice, utc_now
from webcrawl.alarms.watcher import About
from webcrawl.config import StoreConfig
from webcrawl.documents.disk import DiskSpace, occupied
from webcrawl.documents.values import size
from webcrawl.stores.store_use import StoreUse

NEARLY = 5
"""A disk is nearly full if less than this multiple of STORE_MIN_FREE_BYTES, at which workers pause, is free."""
NEARLY_SHARE = 0.9
"""A disk or a quota is nearly full from this part of STORE_MAX_SHARE on."""
SPOOL_SHARE = 0.8
"""A spool is nearly full above this share of STORE_SPOOL_MAX_BYTES."""


def shortages(stores: StoreConfig, machine: str, about: About, use: StoreUse | None = None) -> list[Notice]:
    """Returns a notice for each disk and spool of this machine that is nearly full, and for the quota of the store.

    There is one notice for each day (UTC): of the quota one of all machines.
    """
    now = utc_now()
    notices = [
        about.notice("STORES", f"{machine} {problem} {now:%Y-%m-%d}", f"{problem} on {machine}", text, now)
        for problem, text in _short(stores)
    ]
    if use is not None and use.share >= NEARLY_SHARE * stores.max_share:
        text = f"{use}. {_pause_at(stores.max_share)}"
        notices.append(
            about.notice(
                "STORES", f"quota {now:%Y-%m-%d}", "the quota of the store is nearly full", text, now
            )
        )
    return notices


def _short(stores: StoreConfig) -> Iterator[tuple[str, str]]:
    for folder, pause in _disks(stores).items():
        left, used_share = DiskSpace.of(folder)
        if left < NEARLY * stores.min_free:
            yield f"the disk of {folder} is nearly full", f"{size(left)} are free. {pause}"
        elif used_share >= NEARLY_SHARE * stores.max_share and stores.max_share < 1:
            text = f"{used_share:.0%} are used, and {size(left)} are free. {_pause_at(stores.max_share)}"
            yield f"the disk of {folder} is nearly full", text
    spool = stores.data_dir / "spool"
    if stores.spool_max and spool.exists():
        waiting = sum(occupied(Path(folder)) for folder, _, _ in os.walk(spool))
        if waiting > SPOOL_SHARE * stores.spool_max:
            most = f"At {size(stores.spool_max)} (STORE_SPOOL_MAX_BYTES), workers pause."
            yield f"the spool {spool} is nearly full", f"{size(waiting)} wait to be uploaded. {most}"


def _disks(stores: StoreConfig) -> dict[Path, str]:
    """Returns a folder of each disk that is written to, with the consequence of a full disk."""
    pause = f"Below {size(stores.min_free)} (STORE_MIN_FREE_BYTES), workers pause."
    folders = [(stores.data_dir, pause)]
    if (parts := urlsplit(stores.pages)).scheme == "file":
        folders.append((Path(unquote(parts.path)), pause))
    database = make_url(stores.metadata)
    if database.get_backend_name() == "sqlite" and database.database:
        folders.append(
            (Path(database.database).parent, "When it is full, workers wait: it has the database.")
        )
    disks: dict[int, tuple[Path, str]] = {}
    for folder, consequence in folders:
        if folder.exists():
            disks.setdefault(folder.stat().st_dev, (folder, consequence))
    return dict(disks.values())


def _pause_at(most_share: float) -> str:
    return f"From {most_share:.0%} (STORE_MAX_SHARE) on, workers pause."
