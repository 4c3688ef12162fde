"""The words of the main part of a page are in the index, and those beside it are not."""

from __future__ import annotations

from pathlib import Path

from tests.unit.search.indexes import Pages, page
from webcrawl.documents.document import Document
from webcrawl.documents.html.main_text import main_text

PROSE = "The ferry left the island before sunrise, and the whole village stood on the pier to see it go."
MARKUP = f"""<html><body><nav><a href=/>Timetables</a></nav>
<div id=root><div class=x1><p>We use cookies to measure the lighthouse.</p><button>Accept</button></div>
<main><h1>Boats</h1><p>{PROSE}</p><p>{PROSE}</p>
<table><tr><th>Name<th>Kind<tr><td><a href=/k>Kittiwake</a><td><a href=/s>Schooner</a></table>
<dl><dt>Harbour<dd><a href=/m>Mevagissey</a></dl>
<x-note><template shadowrootmode=open>
<p>The barnacles were scraped off in the spring of that year.</p></template></x-note>
<p>{PROSE}</p></main></div></body></html>"""


def test_words_of_the_main_part_are_searched_and_those_beside_it_are_not(tmp_path: Path) -> None:
    document = Document(MARKUP.encode(), "text/html", "utf-8", "http://a.example/")
    pages = Pages(tmp_path)
    pages.store(page("/boats", main_text(document.html) or ""))
    pages.index()
    for word in ("ferry", "kittiwake", "schooner", "mevagissey", "barnacles"):
        assert pages.urls(word) == ["/boats"], word
    for word in ("timetables", "cookies", "lighthouse", "accept"):
        assert pages.urls(word) == [], word
