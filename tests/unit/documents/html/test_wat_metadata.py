"""What WAT files have of HTML pages."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from webcrawl.documents.document import Document
from webcrawl.documents.html.wat_metadata import MAX_TEXT, html_metadata, read, unpack
from webcrawl.documents.mime.facts import pack_error
from webcrawl.errors import UnreadableDocument


def page(markup: str) -> Document:
    return Document(markup.encode(), "text/html", "utf-8", "http://example.org/")


def test_head_and_links_have_the_form_of_common_crawl() -> None:
    metadata = html_metadata(
        page(
            "<head><base href=/b/><title> A\n title</title><meta charset=utf-8><meta name=robots content=all>"
            "<meta property=og:title content=T><link rel=icon href=i.png type=image/png><script src=s.js></script>"
            "<script>inline</script></head><body background=back.png>"
            f"<a href=one title=t target=_top> the <b>first</b>\n link </a><a name=x>none</a>"
            f"<a href=two>{'x' * 200}</a><img src=p.png alt=''><form action=/s method=post></form>"
            "<iframe src=f></iframe><area href=area><svg><title>drawing</title></svg>"
        )
    )
    assert metadata["Head"] == {
        "Base": "/b/",
        "Title": "A title",
        "Metas": [
            {"charset": "utf-8"},
            {"name": "robots", "content": "all"},
            {"property": "og:title", "content": "T"},
        ],
        "Link": [{"path": "LINK@/href", "url": "i.png", "rel": "icon", "type": "image/png"}],
        "Scripts": [{"path": "SCRIPT@/src", "url": "s.js"}],
    }
    assert metadata["Links"] == [
        {"path": "BODY@/background", "url": "back.png"},
        {"path": "A@/href", "url": "one", "target": "_top", "title": "t", "text": "the first link"},
        {"path": "A@/href", "url": "two", "text": "x" * MAX_TEXT},
        {"path": "IMG@/src", "url": "p.png", "alt": ""},
        {"path": "FORM@/action", "url": "/s", "method": "post"},
        {"path": "IFRAME@/src", "url": "f"},
        {"path": "AREA@/href", "url": "area"},
    ]


def test_pages_without_links_and_refused_pages() -> None:
    assert html_metadata(page("text")) == {}
    refused = page("<a href=x>x</a>")
    refused.refused = "is too much"
    with pytest.raises(UnreadableDocument, match="is too much"):
        html_metadata(refused)


def test_answers_are_checked() -> None:
    answered = page("<a href=x>\ud800</a>".encode("utf-8", "surrogatepass").decode("utf-8", "replace"))
    assert unpack(read(answered)) == html_metadata(answered)
    with pytest.raises(UnreadableDocument, match="broken"):
        unpack(pack_error("broken"))
    for answer in (b"", b"[]", b"{", json.dumps({"Links": {}}).encode(), json.dumps({"Head": 5}).encode()):
        with pytest.raises(ValueError, match=r".*"):
            unpack(answer)


@given(st.binary(max_size=100))
def test_other_bytes_are_rejected(data: bytes) -> None:
    with pytest.raises((ValueError, UnreadableDocument)):
        unpack(b"\x00" + data)
