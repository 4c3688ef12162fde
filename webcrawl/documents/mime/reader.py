"""Calls a reader: a function that returns the facts of a document, named "module:function"."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

from webcrawl.config.libraries import named_object
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts, pack
from webcrawl.errors import ResourcesExhausted, UnreadableDocument

Reader: TypeAlias = Callable[[Document], Facts]


def call(reader: str, document: Document) -> Facts:
    """Returns the facts of a document; raises only UnreadableDocument.

    Libraries raise any kind of exception for a broken file, so every exception counts as an error of the document.
    """
    try:
        return cast("Facts", named_object(reader)(document))
    except UnreadableDocument:
        raise
    except MemoryError as error:
        raise ResourcesExhausted("takes more memory than allowed") from error
    except RecursionError as error:
        raise UnreadableDocument("is nested too deep") from error
    except Exception as error:
        raise UnreadableDocument(f"{type(error).__name__}: {error}"[:500]) from error


def answer(reader: str, document: Document) -> bytes:
    """Returns the facts of a document, packed unless the reader returns bytes; raises only UnreadableDocument."""
    facts = cast("Facts | bytes", call(reader, document))
    return facts if isinstance(facts, bytes) else pack(facts)
