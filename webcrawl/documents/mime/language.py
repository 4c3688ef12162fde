"""Detects the language of a text with Compact Language Detector 2, as in Chromium.

It knows 160 languages and takes 0.09 ms a text. Only its sure answers are used. Measured with program
messages of 800 characters in 90 languages: 90% of all answers and 96% of the sure ones are right; in the 37 largest of
these languages, 99% and 99%. (py3langid: 92% and 96%, in the largest 98% and 99%; it takes 0.4 ms a text, 0.6 s once,
and 77 MB.)
"""

from __future__ import annotations

from webcrawl.documents.mime.facts import language

try:
    import pycld2
except ImportError:  # no wheel for this platform: see pyproject.toml
    pycld2 = None

_SAMPLE = 800
"""Characters from the middle of the text: starts and ends of documents often have other languages."""
_LEAST = 60
"""The fewest bytes of letters in UTF-8: two short Latin words are not enough, twenty Chinese characters are."""
_SURE = 70
"""The least share of the text that must be in the language, in percent."""
_NO_ASCII_LETTERS = bytes(byte for byte in range(128) if not chr(byte).isalpha())
# Tags for an unknown language, and for scripts of many languages.
_NONE = ("un", "xx-")
# Outdated tags of CLD2.
_TAGS = {"iw": "he", "jw": "jv"}


def detected(text: str) -> str | None:
    """Returns the language of a text as a primary subtag; None if it is not sure, or CLD2 is not installed."""
    if pycld2 is None:
        return None
    start = max(0, len(text) // 2 - _SAMPLE)
    sample = " ".join(text[start : start + 2 * _SAMPLE].split())[:_SAMPLE]
    if _letters(sample) < _LEAST:
        return None
    # CLD2 raises for control characters and lone surrogates
    if not sample.isprintable():
        sample = "".join(filter(str.isprintable, sample))
    sure, _, (best, *_) = pycld2.detect(sample, isPlainText=True)
    _, tag, percent, _ = best
    return language(_TAGS.get(tag, tag)) if sure and percent >= _SURE and not tag.startswith(_NONE) else None


def _letters(text: str) -> int:
    """Returns the number of bytes of the letters in UTF-8."""
    if text.isascii():  # a twentieth of the time
        return len(text.encode().translate(None, _NO_ASCII_LETTERS))
    return len("".join(filter(str.isalpha, text)).encode("utf-8", "replace"))
