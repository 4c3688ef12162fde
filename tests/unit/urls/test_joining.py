"""Links of a page are resolved as the URL parser does, and those of plain addresses are kept by folder."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings, strategies as st

from webcrawl.errors import InvalidURL
from webcrawl.urls.canonical import Base, _joined_in, normalize, resolve

BASES = [
    "http://h/",
    "http://h/a",
    "http://h/a/b/c.html?x=/y/z",
    "https://h:8443/a//b/",
    "http://h/a/;p/b;c?",
    "http://[::1]/a/b",
]
PIECES = st.sampled_from(
    [
        "/",
        "..",
        "../",
        ".",
        "./",
        "a",
        "b.html",
        "c..d",
        "-",
        "_",
        "%41",
        "%2e",
        "é",
        " ",
        "?",
        "?q=1&r",
        "#f",
        ":",
        "//",
        "\\",
        "\t",
    ]
    + [
        "http:",
        "http://h/",
        "http://www.h.org/",
        "https://h-1.co",
        "http://xn--a.org/",
        "http://1.0x4/",
        "http://h.org:80/",
        "https://h:8443/",
        "http://H/",
        "mailto:x",
        "1",
        "...",
        "a/",
        "h",
        "~",
        "'",
        "+",
        "@",
    ]
)


def outcome(join: Callable[..., str | None], *arguments: str) -> str | None:
    try:
        return join(*arguments)
    except InvalidURL:
        return "invalid"


@given(st.sampled_from(BASES), st.lists(PIECES, max_size=6).map("".join))
@settings(max_examples=100)
def test_base_resolves_as_the_url_parser_does(url: str, address: str) -> None:
    assert outcome(Base(url).resolve, address) == outcome(resolve, address, url)


@given(st.sampled_from(BASES), PIECES.flatmap(lambda one: st.sampled_from([one, one + one, one + "b?c=d"])))
def test_pages_of_one_folder_keep_links_of_plain_addresses_alone(url: str, address: str) -> None:
    """`Base` keeps joined links by folder, but "?b" and "" are joined to the file of a page."""
    for page in (url, url + "other", url, url.partition("?")[0] + "?d"):
        normal = normalize(page)
        assert outcome(Base(normal).resolve, address) == outcome(resolve, address, normal)


def test_joined_links_are_bounded() -> None:
    base = Base("http://bounded.example/a/")
    long = "b" * 10_000
    for number in [*range(2_000), 0]:
        assert base.resolve(f"../{number}") == f"http://bounded.example/{number}"
    assert base.resolve(long) == f"http://bounded.example/a/{long}"
    kept = _joined_in("http://bounded.example/", "http://bounded.example/a/")
    assert 0 < len(kept) <= 512 and long not in kept
