"""How much of a body is kept, by its MIME type."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from webcrawl.documents.body import BodyWriter
from webcrawl.documents.mime.sniff import SNIFF_BYTES, mime_type_of


class Sizes:
    """The most bytes of a type: of "text/html" itself, of "text/*", of "*/*", the first of these that is given.

    0 means no limit, and so does a type that nothing is said of.
    """

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._limits = {name: size or math.inf for name, size in limits.items()}
        self.least = min(self._limits.values(), default=math.inf)
        """No type's limit is lower: a body that is not longer need not be looked at."""

    def of(self, mime_type: str) -> float:
        """The most bytes of a body of this type; infinite where there is no limit."""
        for name in (mime_type, mime_type.partition("/")[0] + "/*", "*/*"):
            if name in self._limits:
                return self._limits[name]
        return math.inf

    def of_start(self, content_type: str | None, start: bytes, url: str, *, nosniff: bool = False) -> float:
        """The most bytes of a body that begins so; see `sniff`."""
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
        """Let a writer have a decoded body, as far as its type lets it, at most `most` bytes; whether that is all.

        May take long; raises StoreError.
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
