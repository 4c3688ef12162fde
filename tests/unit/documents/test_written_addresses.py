"""Addresses in a text: where they begin and end."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.documents.written_addresses import MAX_LENGTH, trimmed, written_addresses


@cases(
    ("text", "addresses"),
    [
        (
            "See http://a.example/x(1), (https://b.example/y).",
            ["http://a.example/x(1)", "https://b.example/y"],
        ),
        ("[http://a.example/b](http://a.example/c)", ["http://a.example/b", "http://a.example/c"]),
        ("<https://a.example/b>c", ["https://a.example/b"]),
        ("'http://a.example/b','http://a.example/c'", ["http://a.example/b", "http://a.example/c"]),
        ("https://a.example/Moore's_law is", ["https://a.example/Moore's_law"]),
        ("**http://a.example/b** _http://a.example/c_", ["http://a.example/b", "http://a.example/c"]),
        ("请看https://a.example/页。然后“https://b.example/”（http://c.example/d）", None),
        ("HTTP://A.example/?!]", ["HTTP://A.example/"]),
        ("http://[::1]/x and http://[::1].", ["http://[::1]/x", "http://[::1]"]),
        (
            "http://a.example/x&amp;&lt;. http://a.example/?a&amp;b",
            ["http://a.example/x", "http://a.example/?a&amp;b"],
        ),
        ("http://a.example/x;... ftp://a.example/f", ["http://a.example/x", "ftp://a.example/f"]),
        ("www.a.example/b, (WWW.a.example).", ["http://www.a.example/b", "http://WWW.a.example"]),
        ("www.a www..a x@www.a.example //www.a.example xhttp://a.example sftp://a.example", []),
        ("http://a.example/b\x00c http://a.example/d\x1ee", ["http://a.example/b", "http://a.example/d"]),
        ("a.example mailto:x@a.example javascript:alert(1)", []),
        (f"http://a/{'b' * MAX_LENGTH} http://a/c", ["http://a/c"]),
    ],
)
def test_addresses_are_found(text: str, addresses: list[str] | None) -> None:
    wanted = (
        ["https://a.example/页", "https://b.example/", "http://c.example/d"]
        if addresses is None
        else addresses
    )
    assert list(written_addresses(text)) == wanted


@given(st.text(alphabet="htps:/w.a()[];,&*_~'\"!?é。 \n"))
def test_an_address_is_part_of_the_text_and_trimmed(text: str) -> None:
    for address in written_addresses(text):
        assert address in text or address.removeprefix("http://") in text
        assert trimmed(address) == address and not set(address) & set(' \n"。')
        assert address.count("(") >= address.count(")")


@pytest.mark.parametrize(
    "text",
    [
        "http://a" + "&amp;" * 200_000,
        ("http://a" + "&amp;" * 1_500 + " ") * 100,
        ("http://a/" + ")" * 8_000 + " ") * 100,
        ("http://a/" + "(" * 8_000 + " ") * 100,
        ("http://a/" + "." * 8_000 + " ") * 100,
        "www." * 250_000,
        "http://" * 150_000,
        "http://a" + "'" * 1_000_000,
        "www.a" * 200_000,
    ],
    ids=["entities", "short", "closing", "opening", "points", "www", "schemes", "quotes", "names"],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    begin = time.process_time()
    for _ in written_addresses(text):
        pass
    # 0.1 s for a million characters; a search that tries again at each character would take minutes
    assert time.process_time() - begin < 20
