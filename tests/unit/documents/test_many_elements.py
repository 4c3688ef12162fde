"""The elements of a page with very many of them, whose attributes are not kept."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

from selectolax.lexbor import LexborHTMLParser, LexborNode

from webcrawl.documents.document import Document
from webcrawl.documents.html.links import collect
from webcrawl.documents.link_elements import MANY_ELEMENTS, MAX_METAS, Element, search

URL = "http://h.test/"
NUMBER = 4 * MANY_ELEMENTS


def markup(number: int) -> bytes:
    head = b"<base href=/b/><meta name=a content=b><img src=i><a>no</a>"
    return head + b"".join(b"<a href=%d rel=x>a</a>" % one for one in range(number))


def test_many_elements_are_the_same_as_few() -> None:
    few, many = (Document(markup(number), "text/html", "utf-8", URL) for number in (100, NUMBER))
    nodes = many.search()
    assert isinstance(few.elements, list) and not isinstance(many.elements, list)
    assert len(many.elements) == len(nodes) == NUMBER + 2
    assert list(many.elements)[:102] == few.elements == list(many.elements[:102])
    assert many.elements[1] == ("meta", {"name": "a", "content": "b"})
    assert many.elements[-1] == ("a", {"href": f"{NUMBER - 1}", "rel": "x"})
    found = collect(many.elements).joined(URL)
    assert found.links == [f"http://h.test/b/{number}" for number in range(NUMBER)]
    many.forget(only_elements=True)
    assert many.metas == few.metas


def test_many_metas_do_not_count() -> None:
    tree = LexborHTMLParser(b"<meta content=b>" * NUMBER + b"<a href=/x>a</a>")
    assert len(search(tree).elements) == MAX_METAS + 1


def test_the_attributes_of_many_elements_are_not_in_memory() -> None:
    """A page of 200,000 links took 75 MB for them. A node alone has 64 bytes, and its attributes 230 more."""

    def size(tree: LexborHTMLParser) -> tuple[Sequence[Element], int]:
        nodes: list[LexborNode] = []
        tracemalloc.start()
        found = search(tree, nodes).elements
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return found, held

    found, held = size(LexborHTMLParser(markup(NUMBER)))
    assert held < 150 * len(found)
