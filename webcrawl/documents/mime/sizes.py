"""Limits the length of bodies by their MIME types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from webcrawl.documents.body_writer import BodyWriter
from webcrawl.documents.mime.sniff import SNIFF_BYTES, mime_type_of


class SizeLimits:
    """The limits of types in bytes, from the most specific pattern to the least: "text/html", "text/*", "*/*".

    There is no limit if the matching limit is 0 or no pattern matches.
    """

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = {name: size or math.inf for name, size in limits.items()}
        self.least = min(self._limits.values(), default=math.inf)
        """The lowest limit. The type of a body of at most this size need not be known."""

    def of(self, mime_type: str) -> float:
        """Returns the most bytes of a body of this type; infinity for no limit."""
        for name in (mime_type, mime_type.partition("/")[0] + "/*", "*/*"):
            if name in self._limits:
                return self._limits[name]
        return math.inf

    def of_start(self, content_type: str | None, start: bytes, url: str, *, nosniff: bool = False) -> float:
        """Returns the most bytes of a body, whose type is sniffed from `start`; see `sniff`."""
        return self.of(mime_type_of(content_type, start[:SNIFF_BYTES], url, nosniff=nosniff))

    def fill(
        self,
        writer: BodyWriter,
        chunks: Iterable[bytes],
        content_type: str | None,
        url: str,
        *,
        nosniff: bool = False,
        most: float = math.inf,
    ) -> bool:
        """Writes a decoded body up to the limit of its type and to `most` bytes; returns whether the body is complete.

        May block for long. Raises StoreError.
        """
        limit = min(self.least, most)
        for chunk in chunks:
            if writer.size + len(chunk) > limit:
                start = writer.start(SNIFF_BYTES) + chunk
                limit = min(self.of_start(content_type, start, url, nosniff=nosniff), most)
                if writer.size + len(chunk) > limit:
                    writer.add(chunk[: int(limit) - writer.size])
                    return False
            writer.add(chunk)
            if writer.is_full:
                writer.spill()
        return True
