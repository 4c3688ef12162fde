"""XHTML read by an HTML parser."""

from __future__ import annotations

import time

import pytest

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.documents.markup import expanded
from webcrawl.results.rewriting import rewritten_page

XHTML = "application/xhtml+xml"


def xhtml(body: str) -> Document:
    return Document(body.encode(), XHTML, "utf-8", "http://a.example/")


@cases("name", ["script", "style", "title", "textarea", "iframe", "noscript", "xmp", "a", "p"])
def test_content_after_a_self_closing_element_is_kept(name: str) -> None:
    for empty in (f"<{name}/>", f"<{name.upper()} />", f'<{name} src="a>b" x:y = \'"/>\' />'):
        tree = xhtml(
            f"<html><head><meta a='b'/></head><body>{empty}<p id='p'>text<br/></p></body></html>"
        ).html
        found = tree.css_first("body > #p" if name != "a" else "#p")
        assert found is not None and found.html == '<p id="p">text<br></p>'


def test_text_that_looks_like_a_self_closing_element_is_unchanged() -> None:
    script = "<script>//<![CDATA[\nx = '<b/>';\n//]]></script>"
    tree = xhtml(f"<!-- <i/> --><?a <i/>?><p>{script}<a href=x/>to x/</a><br></p>").html
    assert [node.html for node in tree.css("script, a")] == [script, '<a href="x/">to x/</a>']
    assert not tree.css("i")
    assert Document(b"<p/>a<p/>b", "text/html", "utf-8", "http://a.example/").html.css("p")[0].text() == "a"


@pytest.mark.parametrize("piece", ["<!--", "<![CDATA[", "<?", "<a b='", "<a ", '<a b="c" ', "<a/"])
def test_hostile_xhtml_is_expanded_in_linear_time(piece: str) -> None:
    markup = piece.encode() * (2_000_000 // len(piece)) + b"/>"
    before = time.process_time()
    expanded(markup)
    assert time.process_time() - before < 5  # takes 0.1 s; quadratic time would be hours


def test_rewritten_xhtml_is_complete() -> None:
    document = xhtml(
        '<html><head><title/><script src="/e.js"/></head><body><p>text</p><a href="/b"/></body></html>'
    )
    copy = rewritten_page(document, {"http://a.example/b": "b.html"}.get).decode("utf-8-sig")
    assert copy == (
        '<html><head><title></title><script src="http://a.example/e.js"></script></head>'
        '<body><p>text</p><a href="b.html"></a></body></html>'
    )


@cases(
    "doctype",
    [
        "<!DOCTYPE html [<!ENTITY foo 'bar'>]>",
        "<?xml version='1.0'?><!-- <!DOCTYPE> -->\n"
        "<!DOCTYPE html PUBLIC 'a[b' 'c' [ <!-- ]> --> <!ENTITY % x ']>'> %x; ] >",
    ],
)
def test_declarations_in_a_doctype_are_no_text(doctype: str) -> None:
    markup = f"{doctype}<html xmlns='http://www.w3.org/1999/xhtml'><body><p>a[b]></p></body></html>"
    document = Document(markup.encode(), "application/xhtml+xml", "utf-8", "http://site.example/")
    assert document.html.body is not None and document.html.body.text() == "a[b]>"
