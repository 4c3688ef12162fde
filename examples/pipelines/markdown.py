"""Markdown: the first heading as the title, and the text without its marks."""

from __future__ import annotations

import re
from typing import Any

from webcrawl.page import Page

_TYPES = frozenset({"text/markdown", "text/x-markdown"})
_HEADING = re.compile(r"^#{1,6}[ \t]+(\S.*?)[ \t]*#*$", re.MULTILINE)
_MARKS = re.compile(r"\]\([^)]*\)|[#*_`>\[\]|~]+")
_MAX_TITLE = 1_000


class MarkdownPipeline:
    """Reads Markdown pages that are no copies; a page that says noindex is left alone."""

    def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.document is None or item.duplicate_kind == "exact":
            return item
        if item.mime_type in _TYPES and not item.noindex:
            text = item.document.text
            heading = _HEADING.search(text)
            item.title = heading[1][:_MAX_TITLE] if heading else None
            item.text = " ".join(_MARKS.sub(" ", text).split())
        return item
