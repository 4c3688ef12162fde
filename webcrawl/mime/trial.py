"""Large HTML is parsed by a reader first: what costs too much there is not parsed where the crawl would wait for it.

What `webcrawl.nesting` leaves out is told from counts; this finds what no count tells, whatever it is.
"""

from __future__ import annotations

import time

from webcrawl.document import Document
from webcrawl.errors import UnreadableDocument
from webcrawl.mime.facts import Facts

BYTES = 4 * 1024 * 1024
"""Hardly a page has as much HTML; of the worst that is known so much takes the parser a minute, and 8 MiB four."""
SECONDS = 3.0
"""Of processor time; 8 MiB of usual markup take 0.3 s."""


def parse(document: Document) -> Facts:
    """Parse and find nothing; raises UnreadableDocument where that takes too long."""
    before = time.process_time()
    _ = document.html
    if (seconds := time.process_time() - before) > SECONDS:
        raise UnreadableDocument(f"takes the parser {seconds:.0f} seconds")
    return Facts()
