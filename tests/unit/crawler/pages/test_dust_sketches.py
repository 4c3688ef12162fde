"""What pages look like when they are compared, and which pages say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.cases import cases
from webcrawl.documents.document import Document
from webcrawl.documents.html.outline import make_outline
from webcrawl.documents.page import Page
from webcrawl.pipelines.dust import sketch_of
from webcrawl.policies.page_sketches import ERROR, Sketch
from webcrawl.urls.canonical import split

TEXT = " ".join(f"word{n} is in the text of all these pages" for n in range(12))


def page_of(url: str, links: Sequence[str] = (), *, parsed_elsewhere: bool = True, **fields: Any) -> Page:
    """A page with the text of all pages and with links."""
    body = "".join(f'<a href="{link}">{n}</a>' for n, link in enumerate(links))
    html = f"<p>{TEXT}</p>{body}".encode()
    document = Document(html, "text/html", None, url)
    values = {"status": 200, "mime_type": "text/html", "length": len(html), "digest": f"sha1:{url}"}
    page = Page(url=url, host="", fetched_at=datetime.now(UTC), **{**values, **fields})
    page.document, page.main_text = document, TEXT
    if parsed_elsewhere:
        page.reading.outline = make_outline(document, facts=True, simhash=True)
    return page


def sketch(page: Page) -> Sketch:
    found = sketch_of(page, *split(page.url))
    assert found is not None
    return found


@pytest.mark.parametrize("parsed_elsewhere", [False, True])
def test_links_are_compared_without_sessions_and_own_parameters(parsed_elsewhere: bool) -> None:
    def visit(url: str, session: str, items: Sequence[int]) -> Sketch:
        links = [f"/item?id={n}&sid={session}" for n in items]
        return sketch(page_of(url, links, parsed_elsewhere=parsed_elsewhere))

    here, items = "http://a.test/list", range(30)
    random, other = "0a1b2c3d4e5f60718", "99887766aabbccdd0"
    assert visit(f"{here}?sid={random}", random, items).is_like(visit(here, other, items), 3)
    assert visit(f"{here}?sid=12", "12", items).is_like(visit(f"{here}?sid=34", "34", items), 3)
    assert not visit(f"{here}?page=1", random, items).is_like(
        visit(f"{here}?page=2", other, range(30, 60)), 3
    ), "the text is the same, but these are other links"


def test_a_bounded_part_of_the_links_and_parameters_is_compared() -> None:
    """All of them would hold the event loop for 8 seconds if a page has 8 MB of links and 900 parameters."""
    url, links = "http://a.test/list", [f"/item/{n}" for n in range(5_000)]
    one, other = sketch(page_of(f"{url}?a=1", links)), sketch(page_of(f"{url}?a=2", links[:2_000]))
    assert one.is_like(other, 3), "the first links are the same"
    assert not one.is_like(sketch(page_of(f"{url}?a=3", links[4_000:])), 3)
    long = [f"/{n}?{'x' * 900}" for n in range(2_000)]
    assert sketch(page_of(f"{url}?a=1", long)).links == sketch(page_of(f"{url}?a=1", long[:500])).links
    own = "&".join(f"p{n}={n}" for n in range(60))
    bare = sketch(page_of(f"{url}?{own}", [f"/item/{n}" for n in range(9)]))
    for field, is_left_out in (("p3=3", True), ("p59=59", False)):
        more = sketch(page_of(f"{url}?{own}", [f"/item/{n}?{field}" for n in range(9)]))
        assert (more.links == bare.links) is is_left_out


def test_links_of_two_names_of_a_host_are_the_same() -> None:
    one, other = (
        sketch(page_of(f"{host}/a", [f"{host}/{n}" for n in range(9)]))
        for host in ("http://www.a.test", "http://a.test")
    )
    assert one.payload != other.payload
    assert one.is_like(other, 3)


@pytest.mark.parametrize("fact", ["title", "canonical_url", "image_url"])
def test_pictures_in_an_album_are_told_apart_by_their_facts(fact: str) -> None:
    pages = [
        page_of(f"http://a.test/photo?id={n}", ["/album"], **{fact: f"http://a.test/{n}"}) for n in (1, 2)
    ]
    one, other = map(sketch, pages)
    assert not one.is_like(other, 3)
    assert one.is_like(one._replace(payload=1), 3)


@cases("fields", [{"length": 0}, {"digest": None}, {"truncated": "time"}, {"final_url": "http://a.test/b"}])
def test_pages_that_say_nothing(fields: dict[str, Any]) -> None:
    page = page_of("http://a.test/a", **fields)
    assert sketch_of(page, *split(page.url)) is None


def test_a_page_without_text_says_nothing_unless_it_is_a_copy() -> None:
    page = page_of("http://a.test/a", parsed_elsewhere=False)
    page.main_text = None
    page.text = ""
    assert sketch_of(page, *split(page.url)) is None
    page.reading.was_read = True
    assert sketch(page) == Sketch(sketch(page).payload)


@pytest.mark.parametrize("fields", [{"status": 404}, {"status": 410}, {"soft_404": True}])
def test_error_pages(fields: dict[str, Any]) -> None:
    assert sketch(page_of("http://a.test/a", **fields)) == ERROR


def test_documents_that_are_not_html_are_compared_by_their_bytes() -> None:
    one = page_of("http://a.test/a", mime_type="application/pdf")
    same, other = (
        replace(one, url="http://a.test/b", final_url="http://a.test/b"),
        replace(one, digest="sha1:other"),
    )
    assert sketch(one).is_like(sketch(same), 3)
    assert not sketch(one).is_like(sketch(other), 3)
