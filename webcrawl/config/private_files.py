"""Who may read what a crawl writes: its owner, and the group of DATA_DIR if the mode of that folder says so."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakSet

_OTHERS = 0o077
_GROUP = 0o070
_given: int | None = None
"""The umask that this process was started with; None while it still applies."""
_owners: WeakSet[object] = WeakSet()
"""The crawls of this process that keep their files private."""


def keep_private(folder: Path, owner: object) -> None:
    """Sets the umask so that new files are for the owner alone, and for the group as far as `folder` is.

    A folder that does not exist yet will be for its owner. Child processes, such as the embedded engine, inherit it.
    It stays until `end_privacy` is called for each `owner`, which stands for a crawl.
    """
    global _given
    try:
        group = folder.stat().st_mode & _GROUP
    except OSError:
        group = 0
    before = os.umask(_OTHERS)
    if _given is None:
        _given = before
    os.umask(_given | _OTHERS & ~group)
    _owners.add(owner)


def end_privacy(owner: object = None) -> None:
    """Restores the umask unless another crawl of this process keeps its files private. May be called again.

    Without `owner`, one that was deleted has ended.
    """
    global _given
    if owner is not None:
        _owners.discard(owner)
    # not by its length, which counts files that are being deleted
    if _given is not None and not list(_owners):
        os.umask(_given)
        _given = None


def given_umask() -> int:
    """Returns the umask that this process was started with; -1 if it still applies, as subprocess takes it."""
    return -1 if _given is None else _given


@contextmanager
def readable_outside(folder: Path, path: Path) -> Iterator[None]:
    """Lets a file at `path` have the usual mode if the user asked for it at a place outside of `folder`."""
    if _given is None or path.resolve().is_relative_to(folder.resolve()):
        yield
        return
    private = os.umask(_given)
    try:
        yield
    finally:
        os.umask(private)
