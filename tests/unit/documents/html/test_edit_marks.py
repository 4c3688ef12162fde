"""The marks with which readers of a wiki edit a section."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser

from tests.cases import cases
from tests.unit.documents.html.test_main_part_rules import STORY, found, words
from webcrawl.documents.html.main_text import main_part
from webcrawl.documents.html.markdown import markdown
from webcrawl.urls.canonical import Base

LINK = "<a href='/w/index.php?title=Ferry&amp;action=edit&amp;section=1'>edit</a>"
MARKS = [
    f"<span class=mw-editsection><span>[</span>{LINK}<span>]</span></span>",
    f"<span class=mw-editsection>[{LINK}<span> | </span><a href=/e>edit source</a>]</span>\n",
    f" <small>[{LINK}]</small>",
    f"<sup>[{LINK}]</sup>",
]


@cases("mark", MARKS)
@cases("level", [1, 2, 3])
def test_edit_marks_of_headings_are_left_out(level: int, mark: str) -> None:
    page = f"<main><p>First.</p>{STORY}<h{level}><span id=a>Boats</span>{mark}</h{level}>{STORY}</main>"
    assert found(page) == words(f"<p>First.</p>{STORY}<h2>Boats</h2>{STORY}")
    tree = LexborHTMLParser(page)
    assert f"\n{'#' * level} Boats\n" in markdown(tree, main_part(tree), Base("http://a.example/"))


@cases("mark", ["[1]", "<span>[draft]</span>", "<sup>[<a href=#n>1</a>]</sup>", f"<b>{LINK}</b>"])
def test_other_signs_in_headings_are_kept(mark: str) -> None:
    page = f"<main>{STORY}<h2>Boats {mark}</h2>{STORY}</main>"
    assert found(page) == words(f"{STORY}<h2>Boats {mark}</h2>{STORY}")
