"""The lines of a text, for any white space."""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from webcrawl.documents.html.text import BLOCK
from webcrawl.documents.html.text_lines import lines_of

TEXTS = st.text("ab \t\n\r\x0b\x1c\x1f\x85\xa0\u2003\u2028\u3000\u200bé") | st.text()


@given(TEXTS)
@example("  code\n\nplain words\ntwo  blanks\nhard\xa0blank\n \n")
def test_white_space_is_collapsed_within_lines_and_empty_lines_are_left_out(text: str) -> None:
    text = text.replace("\0", "").replace("\xad", "")
    words = [line.split() for line in text.replace(BLOCK, "\n").split("\n")]
    assert lines_of(text) == tuple(" ".join(line) for line in words if line)
