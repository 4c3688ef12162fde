"""Calls the reader of a MIME type: a function from a document to its facts, known by its name "module:function"."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TypeAlias, cast

from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts
from webcrawl.errors import ResourcesExhausted, UnreadableDocument

Reader: TypeAlias = Callable[[Document], Facts]


def named(reader: str) -> Reader:
    """The function "package.module:function"; raises ImportError, AttributeError."""
    module, _, name = reader.partition(":")
    return cast("Reader", getattr(importlib.import_module(module), name))


def call(reader: str, document: Document) -> Facts:
    """The facts of a document; raises UnreadableDocument and nothing else.

    Libraries raise whatever they stumble over in a broken file, so nothing is taken for a fault of ours here.
    """
    try:
        return named(reader)(document)
    except UnreadableDocument:
        raise
    except MemoryError as error:
        raise ResourcesExhausted("takes more memory than allowed") from error
    except RecursionError as error:
        raise UnreadableDocument("is nested too deep") from error
    except Exception as error:
        raise UnreadableDocument(f"{type(error).__name__}: {error}"[:500]) from error
