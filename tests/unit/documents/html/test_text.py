"""The lines of a text, for any white space."""

from __future__ import annotations

from hypothesis import example, given, strategies as st
from selectolax.lexbor import LexborHTMLParser

from tests.cases import cases
from webcrawl.documents.html.main_text import main_part
from webcrawl.documents.html.markdown import markdown
from webcrawl.documents.html.text import BLOCK, lines_of, visible_text
from webcrawl.urls.canonical import Base

TEXTS = st.text("ab \t\n\r\x0b\x1c\x1f\x85\xa0\u2003\u2028\u3000\u200bé") | st.text()


@given(TEXTS)
@example("  code\n\nplain words\ntwo  blanks\nhard\xa0blank\n \n")
def test_white_space_is_collapsed_within_lines_and_empty_lines_are_left_out(text: str) -> None:
    text = text.replace("\0", "").replace("\xad", "")
    words = [line.split() for line in text.replace(BLOCK, "\n").split("\n")]
    assert lines_of(text) == tuple(" ".join(line) for line in words if line)


KATEX = (
    "<span class=katex><span class=katex-mathml><math><semantics><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow>"
    "<annotation encoding='application/x-tex'>x^2</annotation></semantics></math></span>"
    "<span class=katex-html aria-hidden=true><span class=base><span>x</span><span>2</span></span></span></span>"
)


def test_formula_that_is_written_twice_is_read_once() -> None:
    prose = "The ferry left the harbour at dawn, and nobody on the whole island had seen it go."
    page = f"<article><p>{prose} So {KATEX} grew, <span aria-hidden=true>it</span> did. {prose}</p></article>"
    expected = f"{prose} So x^2 grew, it did. {prose}"
    tree = LexborHTMLParser(page)
    part = main_part(tree)
    assert visible_text(tree) == expected
    assert part is not None
    assert part.text.strip() == expected
    assert markdown(tree, part, Base("http://a.example/")).strip() == expected


def test_formulas_and_ruby_do_not_break_a_line() -> None:
    page = """<p>If <math display=block><semantics><mrow><msup><mi>x</mi>
        <mn>2</mn></msup> <mo>=</mo> <mtext>one </mtext></mrow><annotation encoding="application/x-tex">x^2
        </annotation></semantics></math>, then <ruby>字<rp>(</rp><rt>じ</rt><rp>)</rp></ruby>は."""
    assert visible_text(LexborHTMLParser(page)) == "If x^2=one, then 字は."


def test_links_of_headings_to_themselves_are_no_text() -> None:
    page = """<h1>One<a href="#one">¶</a></h1><p>Two <a href="#two">#</a><p><a href="/three">#</a><p>§ 4"""
    assert visible_text(LexborHTMLParser(page)) == "One\nTwo\n#\n§ 4"


@cases(
    ("markup", "expected"),
    [
        ("<mn>10</mn><mo>=</mo><msup><mn>10</mn><mn>1</mn></msup>", "10=10^1"),
        ("<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>12</mn></mfrac>", "(a+b)/12"),
        (
            "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover>",
            "∑_(i=1)^n",
        ),
        ("<msup></msup><msub><mi>x</mi></msub><mfrac> <mn>1</mn> <mn>2</mn> <mn>3</mn></mfrac>", "x1/23"),
        ("<mrow>" * 2_000 + "<mi>x</mi>", "x"),
    ],
    ids=range(5),
)
def test_formulas_are_in_a_row(markup: str, expected: str) -> None:
    assert visible_text(LexborHTMLParser(f"<p><math>{markup}</math>")) == expected
