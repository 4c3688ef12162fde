"""Decides the language of pages: what they declare, or what their text is in."""

from __future__ import annotations

from typing import Any

from webcrawl.config.libraries import is_installed
from webcrawl.documents.mime.language import DecidedLanguage, decided
from webcrawl.documents.page import Page

_MOST_LANGUAGES = 3


class LanguagePipeline:
    """Sets `language` and `language_source`, and `languages` in `details`.

    A page without a language of its own has that of the header Content-Language.
    """

    def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.reading.noindex:
            return item
        declared = item.language or item.reading.content_language
        if declared is None and not is_installed("languages"):
            item.reading.missing_extra = item.reading.missing_extra or "languages"
            return item
        decision = decided(item.main_text or item.text or "", declared)
        item.language, item.language_source = decision.language, decision.source
        if decision.language == decision.detection.best:
            item.reading.language_score = decision.detection.score
        if languages := _details(decision, declared):
            item.details = {**(item.details or {}), "languages": languages}
        return item


def _details(decision: DecidedLanguage, declared: str | None) -> dict[str, Any]:
    """Returns what was declared and detected; empty if nothing was detected."""
    detection = decision.detection
    if detection.best is None:
        return {}
    main = [decision.language] if decision.language else []
    languages = list(dict.fromkeys([*main, *detection.languages]))[:_MOST_LANGUAGES]
    return {
        **({"declared": declared} if declared else {}),
        "detected": detection.best,
        "score": round(detection.score, 2),
        **({"content_languages": languages} if languages else {}),
    }
