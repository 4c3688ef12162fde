"""Large HTML is parsed by a reader first: what costs too much there is not parsed where the crawl would wait for it.

What `webcrawl.nesting` leaves out is told from counts; this finds what no count tells, whatever it is.
"""

from __future__ import annotations

import time

from webcrawl.document import Document
from webcrawl.errors import UnreadableDocument
from webcrawl.links import page_links
from webcrawl.mime.facts import Facts
from webcrawl.mime.html import describe
from webcrawl.mime.readable import visible_text

BYTES = 512 * 1024
"""Of so much HTML the parser's work is bounded: about a second, of the worst that is known."""
SECONDS = 3.0
"""Of processor time; 8 MiB of usual markup take 0.3 s."""


def parse(document: Document) -> Facts:
    """Do with a document what a crawl does, and find nothing; raises UnreadableDocument where that takes too long."""
    before = time.process_time()
    describe(document)
    visible_text(document.html)
    page_links(document.elements, document.url)
    if (seconds := time.process_time() - before) > SECONDS:
        raise UnreadableDocument(f"takes the parser {seconds:.0f} seconds")
    return Facts()
