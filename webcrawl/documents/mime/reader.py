"""Calls a reader: a function that returns the facts of a document, named "module:function"."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from webcrawl.config.libraries import named_object
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts, pack
from webcrawl.errors import ResourcesExhausted, UnreadableDocument

Reader: TypeAlias = Callable[..., Facts]
"""Takes a document, and keyword arguments if `call` gets some."""
NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})


def call(reader: str, document: Document, arguments: Mapping[str, Any] = NO_ARGUMENTS) -> Facts:
    """Returns the facts of a document; raises only UnreadableDocument.

    Libraries raise any kind of exception for a broken file, so every exception counts as an error of the document.
    """
    try:
        return cast("Facts", named_object(reader)(document, **arguments))
    except UnreadableDocument:
        raise
    except MemoryError as error:
        raise ResourcesExhausted("takes more memory than allowed") from error
    except RecursionError as error:
        raise UnreadableDocument("is nested too deep") from error
    except Exception as error:
        raise UnreadableDocument(f"{type(error).__name__}: {error}"[:500]) from error


def answer(reader: str, document: Document, arguments: Mapping[str, Any] = NO_ARGUMENTS) -> bytes:
    """Returns the facts of a document, packed unless the reader returns bytes; raises only UnreadableDocument."""
    facts = cast("Facts | bytes", call(reader, document, arguments))
    return facts if isinstance(facts, bytes) else pack(facts)
