"""How much of a body is kept, by its MIME type."""

from __future__ import annotations

import math
from collections.abc import Mapping

from webcrawl.mime.sniff import SNIFF_BYTES, mime_type_of


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
