"""The process that parses HTML for a worker: `python -m webcrawl.documents.html.outline_child MEMORY`.

A question is [charset, mime_type, url, wanted]; `wanted` has the keyword arguments of `make_outline`. The answer is
what `webcrawl.documents.html.outline.pack` makes of the page.
"""

from __future__ import annotations

import gc
from typing import Any

from webcrawl.documents.document import Document
from webcrawl.documents.html.outline import make_outline, pack
from webcrawl.documents.mime.facts import pack_error
from webcrawl.documents.sandbox import Sandbox


def main() -> None:
    """Answers questions until the parent closes the socket."""
    sandbox = Sandbox()
    # a page creates thousands of objects and no cycles
    gc.freeze()
    gc.set_threshold(100_000, 1, 1)
    sandbox.serve(_answer)


def _answer(question: Any, body: bytes) -> bytes:
    charset, mime_type, url, wanted = question
    document = Document(body, mime_type, charset, url)
    try:
        return pack(make_outline(document, **wanted))
    except MemoryError:
        raise
    except Exception as error:  # a bug of ours costs no more than this page
        return pack_error(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
