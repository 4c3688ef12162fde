"""Reads documents that are zip files of XML (office documents, books), with limits."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator

from lxml import etree

from webcrawl.documents.document import Document
from webcrawl.documents.mime.xml import parse
from webcrawl.errors import UnreadableDocument

MAX_BYTES = 64 * 1024 * 1024
"""The most unpacked bytes of all members that are read."""
MAX_MEMBERS = 10_000
_AT_ONCE = 65_536


class Zipped:
    """The members of a zip file. All methods raise UnreadableDocument if it is broken or too large."""

    def __init__(self, document: Document) -> None:
        try:
            self._zip = zipfile.ZipFile(document.open())
            self.names = self._zip.namelist()
        except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, NotImplementedError, OSError) as error:
            raise UnreadableDocument(f"is broken: {error}") from error
        if len(self.names) > MAX_MEMBERS:
            raise UnreadableDocument(f"has {len(self.names):,} members, more than {MAX_MEMBERS:,}")
        self._left = MAX_BYTES

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def read(self, name: str) -> bytes:
        """Returns the bytes of a member."""
        return b"".join(self._pieces(name))

    def xml(self, name: str) -> etree._Element:
        """Returns the root element of a member; see `parse`."""
        return parse(self.read(name))

    def _pieces(self, name: str) -> Iterator[bytes]:
        try:
            with self._zip.open(name) as member:
                while piece := member.read(_AT_ONCE):
                    self._left -= len(piece)
                    if self._left < 0:
                        raise UnreadableDocument(f"is larger than {MAX_BYTES:,} bytes when unpacked")
                    yield piece
        except KeyError:
            raise UnreadableDocument(f"is broken: it has no {name}") from None
        except RuntimeError as error:
            raise UnreadableDocument("is protected by a password") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OSError) as error:
            raise UnreadableDocument(f"is broken: {error}") from error
