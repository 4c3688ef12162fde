"""Lines of many texts at once are those of each text."""

from __future__ import annotations

from hypothesis import given, strategies as st

from webcrawl.documents.html.text import lines_of
from webcrawl.documents.many_lines import lines_of_many

# every character that is white space to Python, and those that only look or are encoded like it
WHITE = [chr(code) for code in range(0x3001) if chr(code).isspace()]
OTHERS = ["a", "bc", "é", "\x82", "\u200b", "\u2027", "\u3001", "\ufeff", "\xad", "\0", "\ud800", "𝄞", "\x01"]
texts = st.lists(st.sampled_from([" ", "\n", "\x1e", *WHITE, *OTHERS]), max_size=30).map("".join)


@given(st.lists(texts | st.text(), min_size=1, max_size=5))
def test_lines_are_those_of_each_text(texts: list[str]) -> None:
    expected = ["\n".join(lines_of(text)).encode("utf-8", "replace") for text in texts]
    assert lines_of_many(texts) == expected


def test_every_white_space_is_one_blank() -> None:
    assert len(WHITE) == 29
    for sign in WHITE:
        expected = b"a\nb" if sign in "\n\x1e" else b"a b"
        assert lines_of_many([f"{sign}a{sign}{sign}b{sign}"]) == [expected]
