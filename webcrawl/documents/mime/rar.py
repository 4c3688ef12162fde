"""Lists the members of a RAR archive with rarfile, from their headers; unpacks nothing."""

from __future__ import annotations

import os
from typing import Any, BinaryIO

import rarfile

from webcrawl.errors import ArchiveLimitReached, UnreadableDocument

# rarfile would pass packed comments to another program.
rarfile.RAR_MAX_COMMENT = -1
_BROKEN = (rarfile.Error, ValueError, OSError, LookupError, TypeError, OverflowError)


class _Members:
    """Collects the headers that rarfile reads."""

    def __init__(self, shown: int, most: int) -> None:
        self._shown, self._most = shown, most
        self.details: dict[str, Any] = {"format": "rar", "members": 0, "unpacked": 0, "names": []}
        self.end = 0
        self.ended = False

    def add(self, head: Any) -> None:
        if head.type == rarfile.RAR_BLOCK_FILE and not head.flags & rarfile.RAR_FILE_SPLIT_BEFORE:
            self.details["members"] += 1
            self.details["unpacked"] += head.file_size or 0
            if len(self.details["names"]) < self._shown:
                self.details["names"].append(head.filename)
            self.details["encrypted"] = self.details.get("encrypted") or head.needs_password() or None
            if self.details["members"] == self._most:
                raise ArchiveLimitReached
        self.ended = self.ended or head.type == rarfile.RAR_BLOCK_ENDARC
        self.end = max(self.end, (head.data_offset or 0) + (head.add_size or 0))


def contents(file: BinaryIO, shown: int, most: int) -> dict[str, Any]:
    """Returns facts about up to `most` members, read from the headers of an archive or of the start of an archive.

    `shown` is the most names. Raises UnreadableDocument if the headers are encrypted or missing.
    """
    try:
        return _contents(file, shown, most)
    except _BROKEN as error:
        raise UnreadableDocument(f"is broken: {error}") from error


def _contents(file: BinaryIO, shown: int, most: int) -> dict[str, Any]:
    members = _Members(shown, most)
    try:
        archive = rarfile.RarFile(file, errors="strict", info_callback=members.add, part_only=True)
    except ArchiveLimitReached:
        return members.details | {"cut": True}
    except _BROKEN:
        if not members.details["members"]:
            raise
        return members.details | {"broken": True}
    if not members.details["members"]:
        if archive.needs_password():
            raise UnreadableDocument("is protected by a password")
        if not members.ended:
            raise rarfile.BadRarFile("it has no headers")
    if members.end > file.seek(0, os.SEEK_END):
        members.details["broken"] = True
    return members.details | {"solid": archive.is_solid() or None}
