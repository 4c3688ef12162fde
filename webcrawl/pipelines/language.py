"""Sets the language of pages that do not declare a language."""

from __future__ import annotations

from typing import Any

from webcrawl.documents.mime.language import detected
from webcrawl.documents.page import Page


class LanguagePipeline:
    """Takes the language from the header Content-Language, or detects it in the text; sets `language_source`."""

    def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.reading.noindex:
            return item
        if item.language is None:
            item.language = item.reading.content_language
        if item.language is not None:
            item.language_source = "declared"
        elif text := item.main_text or item.text:
            item.language = detected(text)
            item.language_source = "detected" if item.language else None
        return item
