"""Keeps the tables and trees of docstrings as they are: a paragraph of aligned columns becomes a block of code."""

from __future__ import annotations

import re

from griffe import Extension, GriffeLoader, Object


class Preformatted(Extension):
    """Marks paragraphs of aligned columns in the docstrings of all objects."""

    def on_object(self, *, obj: Object, loader: GriffeLoader, **rest: object) -> None:
        if obj.docstring:
            paragraphs = obj.docstring.value.split("\n\n")
            obj.docstring.value = "\n\n".join(map(_marked, paragraphs))


def _marked(paragraph: str) -> str:
    lines = paragraph.splitlines()
    aligned = [line for line in lines if re.search(r"^\S.*\S {2,}\S", line)]
    if len(lines) > 1 and (2 * len(aligned) > len(lines) or "├──" in paragraph):
        return "\n".join(["```text", *lines, "```"])
    return paragraph
