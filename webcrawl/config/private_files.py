"""Keeps the files of a crawl private: for their owner, and for the group of DATA_DIR if its mode allows that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakSet

_OTHERS = 0o077
_GROUP = 0o070
_given: int | None = None
"""The umask with which this process was started; None while it still applies."""
_owners: WeakSet[object] = WeakSet()
"""The crawls of this process that keep their files private."""


def keep_private(folder: Path, owner: object) -> None:
    """Sets the umask so that only the owner may read new files, and the group if it may read `folder`.

    A folder that does not exist yet will be for its owner. Child processes, such as the embedded engine, inherit the
    umask. It stays until `end_privacy` is called for each `owner`, which stands for a crawl.
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
    """Restores the umask, unless another crawl of this process keeps its files private. May be called twice.

    Without `owner`, the crawl whose owner was deleted has ended.
    """
    global _given
    if owner is not None:
        _owners.discard(owner)
    # not `len`, which also counts owners that are being deleted
    if _given is not None and not list(_owners):
        os.umask(_given)
        _given = None


def given_umask() -> int:
    """Returns the umask with which this process was started, for subprocess; -1 if it still applies."""
    return -1 if _given is None else _given


@contextmanager
def readable_outside(folder: Path, path: Path) -> Iterator[None]:
    """Gives a new file at `path` the usual mode if `path` is outside of `folder`."""
    if _given is None or path.resolve().is_relative_to(folder.resolve()):
        yield
        return
    private = os.umask(_given)
    try:
        yield
    finally:
        os.umask(private)
