"""The Link header and its links to pages."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.documents.html.links import HeaderLink, header_links


@cases(
    ("value", "links"),
    [
        ('</next>; rel="next"', [("/next", False)]),
        ("</a>; rel=next, </b>; rel=prev", [("/a", False), ("/b", False)]),
        ('</a>; rel="canonical next"', [("/a", True)]),
        ('</a,b;c>; title="x, <y>; rel=next"; rel=alternate', [("/a,b;c", False)]),
        ('</a>; REL="Canonical"', [("/a", True)]),
        ("</a>;rel=next;rel=icon", [("/a", False)]),
        ("</a>; rel=icon; rel=next", []),
        ("</s.css>; rel=stylesheet, </p>; rel=preload, </s>; rel='next'", []),
        ('</s.css>; rel="alternate stylesheet"', []),
        ('</a>; rel="next nofollow"', []),
        ('</a>; rel=next; anchor="/other"', []),
        ("</a>", []),
        ("", []),
        ('<<>>,,;;"', []),
    ],
)
def test_links_to_pages_are_extracted(value: str, links: list[tuple[str, bool]]) -> None:
    assert list(header_links([value])) == [HeaderLink(*link) for link in links]


def test_links_of_several_headers_are_limited_to_100() -> None:
    assert [link.address for link in header_links(["</a>; rel=next", "</b>; rel=prev"])] == ["/a", "/b"]
    assert len(list(header_links(["</a>; rel=next, " * 500]))) == 100


@given(st.text(alphabet='<>;,="\\ relnxt/', max_size=300))
def test_any_header_is_parsed_without_error(value: str) -> None:
    for link in header_links([value]):
        assert "<" not in link.address


def test_long_headers_without_links_give_none() -> None:
    for value in (
        "<" * 60_000,
        "</a>;" + " ;" * 30_000,
        '</a>; rel="' + "\\" * 60_000,
        "<a>" + ';"' * 30_000,
    ):
        assert list(header_links([value])) == []
