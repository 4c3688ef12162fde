"""Many expressions at once find what each of them finds by itself."""

from __future__ import annotations

import re
import string

from hypothesis import example, given, strategies as st

from tests.cases import cases
from webcrawl.urls.filters import PatternFilter
from webcrawl.urls.patterns import Patterns, literals

_PIECES = ["abcd", "a", "b", "/docs/", "x?", "ab*", "c+", "d{2}", "e{,3}", ".", r"\.", r"\d", r"\/", "^", "$"]
_GROUPS = [
    "(abcd)",
    "(?:abcd|bcda)?",
    "[abcd/]",
    "[^]a]",
    "[]b]",
    r"[\]c]",
    "(?=abcd)",
    "(?i:ABCD)",
    "(a(b|c)d)+",
]
_ODD = ["|", r"\x61", r"\u0062", "{", "(?#c)", "a{}", r"(\))", "a??", "b+?", r"(a)\1"]
_EXPRESSIONS = st.lists(st.sampled_from(_PIECES + _GROUPS + _ODD), max_size=6).map("".join)
_NUMBERS = [f"^https?://site-{number}\\.example/" for number in range(10_000)]


def _valid(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True


@given(
    st.lists(_EXPRESSIONS.filter(_valid), max_size=4),
    st.text(alphabet="abcdxA./1{}?|" + "\n", max_size=20),
    st.sampled_from(["", "(?i)", "(?x)", "(?s)"]),
)
@example(["abcd|/docs/"], "/docs/", "")
@example([r"\x61bcd"], "abcd", "")
@example(["abcde?"], "abcd", "")
@example(["abcd"], "ABCD", "(?i)")
def test_the_index_finds_what_the_expressions_find(texts: list[str], url: str, flags: str) -> None:
    expressions = [re.compile(flags + text) for text in texts]
    # enough others for an index
    others = [re.compile(f"{letter}{number}zzzz") for letter in string.ascii_letters for number in range(2)]
    patterns = Patterns(expressions + others)
    assert patterns.match(url) == any(one.search(url) for one in expressions)
    assert patterns.matching(url) == [
        index for index, expression in enumerate(expressions) if expression.search(url)
    ]


@cases(
    ("text", "parts"),
    [
        (r"^https?://site-1\.example/(a|b)/c\d+/e", ["http", "://site-1.example/", "/c", "/e"]),
        ("abcde*f", ["abcd", "f"]),
        ("a|b", []),
        ("(?i)abcd", []),
        (r"\x61bcd", []),
        ("[]abc]d", ["d"]),
    ],
)
def test_the_literal_parts_of_an_expression(text: str, parts: list[str]) -> None:
    assert literals(re.compile(text)) == parts


def test_a_url_is_searched_for_few_of_ten_thousand_expressions() -> None:
    searched: list[str] = []

    class Counted:
        """An expression that counts its searches."""

        def __init__(self, text: str) -> None:
            self._expression = re.compile(text)
            self.pattern, self.flags = self._expression.pattern, self._expression.flags

        def search(self, text: str) -> re.Match[str] | None:
            searched.append(self.pattern)
            return self._expression.search(text)

    patterns = Patterns([Counted(text) for text in _NUMBERS])  # type: ignore[misc]
    assert patterns.match("https://site-9876.example/docs/page.html")
    assert not patterns.match("https://site-x.example/docs/page.html")
    assert len(searched) < 100


def test_long_lists_allow_and_deny() -> None:
    chosen = PatternFilter(
        allow=_NUMBERS, deny=[*(f"/old-{number}/" for number in range(100)), "(?i)/PRIVATE/"]
    )
    assert chosen.apply("http://site-7.example/a")
    assert chosen.apply("http://site-10000.example/a") is None
    assert chosen.apply("http://site-7.example/old-99/a") is None
    assert chosen.apply("http://site-7.example/private/a") is None
