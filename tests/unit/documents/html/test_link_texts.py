"""The texts of links, by their URLs."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser

from webcrawl.documents.html.link_texts import MAX_LINK_TEXT, link_texts
from webcrawl.urls.canonical import Base

URL = "http://site.example/a/b"


def texts(markup: str) -> dict[str, str]:
    return link_texts(LexborHTMLParser(markup), Base(URL))


def test_the_first_text_of_a_url_counts() -> None:
    found = texts(
        """<a href=c>  One <b>two</b>\n three</a> <a href="c#part">later</a> <a href=/d> </a> <a href=/d>Dee</a>
        <a href=e><img src=e.png alt="A picture"></a> <a href=f><img src=f.png></a> <a href=#top>up</a>
        <a href="mailto:a@b.example">mail</a> <a href="http://[">broken</a> <a name=x>no link</a>"""
    )
    assert found == {
        "http://site.example/a/c": "One two three",
        "http://site.example/d": "Dee",
        "http://site.example/a/e": "A picture",
    }


def test_scripts_and_style_sheets_in_a_link_are_no_text() -> None:
    found = texts(
        """<a href=c><span>Buy (now)</span><style>.c{color:red}</style><script>track("x")</script></a>
        <a href=d><script>track("y")</script><img src=d.png alt="A picture"></a>"""
    )
    assert found == {"http://site.example/a/c": "Buy (now)", "http://site.example/a/d": "A picture"}


def test_texts_are_bounded() -> None:
    assert [len(text) for text in texts(f"<a href=c>{'x' * 9000}</a>").values()] == [MAX_LINK_TEXT]
    # nested links repeat the text of the inner ones: 4,000 times 8,000 characters
    nested = "<svg>" + "".join(f"<a href=/{number}>xx" for number in range(4_000))
    assert 100 < len(texts(nested)) < 1_000


def test_links_of_drawings_with_another_attribute_have_their_text() -> None:
    found = texts("<svg><a xlink:href=c>drawn</a></svg> <a href=d>Dee</a>")
    assert found == {"http://site.example/a/c": "drawn", "http://site.example/a/d": "Dee"}


def test_elements_that_are_not_inline_separate_the_words_of_a_link() -> None:
    found = texts("""<a href=c><h3>A card</h3><p>Its <b>te</b>xt.</p></a> <a href=d>two<br>lines</a>
        <a href=e>a<!-- no word -->b<script>f()</script>c</a> <a href=f><span>in<i>li</i>ne</span></a>""")
    assert list(found.values()) == ["A card Its text.", "two lines", "abc", "inline"]
