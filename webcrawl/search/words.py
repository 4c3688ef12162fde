"""The words of texts as the index has them: in lower case, reduced to their stems by language, without accents.

The stemmers are those of the Snowball project, as in tantivy. In languages without spaces between words, each character
is a word, as for the SimHash (webcrawl.documents.simhash), and a search for several characters is a search for a
phrase. The same applies to Korean, which appends particles to its words.

C++, C#, F# and .NET are words, where they are written alone. Their signs are replaced by letters that no text uses, of
the same length, because tantivy's tokenizers see no context.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Any

from webcrawl.search.schema import tantivy

STEMMERS = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nb": "norwegian",
    "nl": "dutch",
    "nn": "norwegian",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
"""tantivy's stemmers by language. Words of other languages are not stemmed."""

_AS_WRITTEN = "as written"

LONGEST = 100
"""The most bytes of a word; longer words, such as Base64, are left out."""

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Hangul}"
_SIGNS = str.maketrans("+#.", "\ua717\ua718\ua719")
_TYPED = {letter: sign for sign, letter in _SIGNS.items()}
# each alternative begins with its sign, so that most of a text is skipped quickly
_WITH_SIGNS = re.compile(
    r"\+(?<=(?<![\w+#])[cC]\+)\+(?!\+)|#(?<=(?<![\w+#])[cCfF]#)(?![\w#])|\.(?<![\w.]\.)[nN][eE][tT](?!\w)"
)
_NAME_WITH_SIGNS = r"[CcFf][\x{A717}\x{A718}]{1,2}|\x{A719}[Nn][Ee][Tt]"
_WORD = rf"{_NAME_WITH_SIGNS}|[{_UNSPACED}]\p{{M}}*|[\w--[{_UNSPACED}_]]+"
# Texts with these characters need _WORD, which takes twice as long as tantivy's rule: characters of scripts without
# spaces, and of scripts whose words contain marks.
_NEEDS_EXPRESSION = re.compile("[\u0300-\u036f\u0483-\u0489\u0530-\u1dff\u2e80-\U0010ffff]")


def composed(text: str) -> str:
    """Returns a text whose letters are composed with their accents (NFC), as most texts are."""
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def searchable(text: str) -> str:
    """Returns the text as it is indexed, of the same length: with letters for the signs of C++, C#, F# and .NET.

    It has a plain I for the dotted I of Turkish, which tantivy converts to an i with an accent that it does not remove.
    """
    return _WITH_SIGNS.sub(lambda match: match[0].translate(_SIGNS), text.replace("\u0130", "I"))


def as_typed(query: str | None) -> str | None:
    """Returns a `searchable` query with the signs of C++, C#, F# and .NET."""
    return query and query.translate(_TYPED)


def forms(text: str) -> list[str]:
    """Returns the words of a `searchable` text as they are written, in lower case."""
    words: list[str] = _analyzer(_AS_WRITTEN, _NEEDS_EXPRESSION.search(text) is not None).analyze(text)
    return words


def analyzer(language: str | None, text: str) -> Any:
    """Returns the TextAnalyzer for a text in a language."""
    return _analyzer(STEMMERS.get(language or ""), _NEEDS_EXPRESSION.search(text) is not None)


def called(language: str | None, text: str) -> str:
    """Returns the stems of a `searchable` title in order, without the number of a chapter before them."""
    stems: list[str] = analyzer(language, text).analyze(text)
    numbers = next((at for at, stem in enumerate(stems) if not stem.isdigit() and len(stem) > 1), 0)
    return " ".join(stems[numbers:] if any(stem.isdigit() for stem in stems[:numbers]) else stems)


def stemmer(language: str) -> str:
    """Returns the stemmer of a language, or "". Languages with the same stemmer have the same terms."""
    return STEMMERS.get(language, "")


@cache
def _analyzer(stemmer: str | None, needs_expression: bool) -> Any:
    library = tantivy()
    tokenizer, filters = library.Tokenizer, library.Filter
    words = library.TextAnalyzerBuilder(
        tokenizer.regex(_WORD) if needs_expression else tokenizer.simple()
    ).filter(filters.remove_long(LONGEST))
    words = words.filter(filters.lowercase())
    if stemmer == _AS_WRITTEN:
        return words.build()
    if stemmer:
        words = words.filter(filters.stemmer(stemmer))
    return words.filter(filters.ascii_fold()).build()
