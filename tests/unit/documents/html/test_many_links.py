"""The links of a page with a great many, which are kept in few strings."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, strategies as st

from webcrawl.documents.document import Document
from webcrawl.documents.html.links import MANY_LINKS, MAX_FRAMES, ManyLinks
from webcrawl.documents.html.outline import make_outline, pack, unpack

URL = "http://h.test/"
bounds = st.none() | st.integers(-2_100, 2_100)


def links(number: int) -> list[str]:
    return [f"{URL}{n}" for n in range(number)]


@given(st.sampled_from([0, 1, 499, 500, 501, 1_000, 1_203]), bounds, bounds, st.integers(-3, 3).filter(bool))
def test_many_links_are_a_sequence_like_a_list(
    number: int, start: int | None, stop: int | None, step: int
) -> None:
    plain = links(number)
    many = ManyLinks.of(plain)
    assert len(many) == number and list(many) == plain and many == plain
    assert many[start:stop] == plain[start:stop]
    assert many[start:stop:step] == plain[start:stop:step]
    for place in {0, -1, number // 2} if number else ():
        assert many[place] == plain[place]
    with pytest.raises(IndexError):
        many[number]


@pytest.mark.parametrize("parts", [["a", "b"], ["\n" * 500], ["\n" * 499, "\n" * 500]])
def test_other_parts_are_refused(parts: list[str]) -> None:
    with pytest.raises(ValueError):
        ManyLinks(parts)


def test_many_links_are_received_in_little_memory() -> None:
    number = 40_000
    body = "".join(f"<a href=/{n}>a</a>" for n in range(number)).encode()
    document = Document(body, "text/html", "utf-8", URL)
    made = make_outline(document, facts=False, simhash=False)
    packed = pack(made)
    tracemalloc.start()
    received = unpack(packed, document)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert received == made and list(received.links.links) == links(number)
    # a list of strings takes 85 bytes a link
    assert held < 30 * number
    few = Document(body[: 10 * MANY_LINKS], "text/html", "utf-8", URL)
    assert isinstance(unpack(pack(make_outline(few, facts=False, simhash=False)), few).links.links, list)


def test_the_tree_of_a_page_is_freed_before_its_links_are_joined() -> None:
    document = Document(b"<a href=/1>a</a><meta name=a content=b>", "text/html", "utf-8", URL)
    made = make_outline(document, facts=True, simhash=True)
    assert document._html is None and document._elements is None
    assert made.links.links == [f"{URL}1"] and made.metas == [{"name": "a", "content": "b"}]


def test_the_first_frames_are_told_apart() -> None:
    body = b"<frameset>" + b"".join(b"<frame src=/%d>" % n for n in range(2 * MAX_FRAMES))
    made = make_outline(Document(body, "text/html", "utf-8", URL), facts=False, simhash=False)
    assert made.frames == links(MAX_FRAMES)
    assert made.links.links == links(2 * MAX_FRAMES)
