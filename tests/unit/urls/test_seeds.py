"""Seeds on the command line and in files, with or without scheme."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.errors import ConfigurationError, CrawlError, InvalidURL
from webcrawl.urls.seeds import read_seeds, seed_url


@cases(
    ("text", "seeds"),
    [
        ("https://a.example/", ["https://a.example/"]),
        ("https://a.example/,https://b.example/x", ["https://a.example/", "https://b.example/x"]),
        ("a.example b.example\n c.example", ["a.example", "b.example", "c.example"]),
        (" a.example , b.example,, ", ["a.example", "b.example"]),
        ("https://a.example/?x=1&y=%2C", ["https://a.example/?x=1&y=%2C"]),
        ("", []),
        (" , \n", []),
    ],
)
def test_seeds_are_read_from_an_argument(text: str, seeds: list[str]) -> None:
    assert list(read_seeds(text)) == seeds


def test_seeds_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "my seeds"
    lines = [
        "# ours",
        "https://a.example/",
        "",
        "  b.example   # the shop",
        "https://c.example/#top",
        "\tü.example",
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert list(read_seeds(f"@{path}")) == [
        "https://a.example/",
        "b.example",
        "https://c.example/#top",
        "ü.example",
    ]


def test_byte_order_mark_and_crlf_are_ignored_in_a_file(tmp_path: Path) -> None:
    """A comma in a line belongs to the seed."""
    path = tmp_path / "seeds"
    path.write_bytes(b"\xef\xbb\xbfhttps://a.example/x,y\r\nhttps://b.example/\r\n")
    assert list(read_seeds(f"@{path}")) == ["https://a.example/x,y", "https://b.example/"]


@pytest.mark.parametrize("contents", [None, b"\xff\xfe\x00h"])
def test_unreadable_file_is_named_in_the_error(tmp_path: Path, contents: bytes | None) -> None:
    path = tmp_path / "seeds"
    if contents is not None:
        path.write_bytes(contents)
    with pytest.raises(ConfigurationError, match="cannot read the seeds in .*/seeds: "):
        list(read_seeds(f"@{path}"))


@cases(
    ("seed", "url"),
    [
        ("https://example.org", "https://example.org/"),
        ("HTTP://Example.ORG:80/a/../b#c", "http://example.org/b"),
        ("example.org", "https://example.org/"),
        ("www.example.org/path?q=1", "https://www.example.org/path?q=1"),
        ("example.org:8443/x", "https://example.org:8443/x"),
        ("localhost:8000", "https://localhost:8000/"),
        ("127.0.0.1/a", "https://127.0.0.1/a"),
        ("bücher.example", "https://xn--bcher-kva.example/"),
        ("http://user:secret@example.org/", "http://example.org/"),
        ("http://[::1]:81/", "http://[::1]:81/"),
    ],
)
def test_seed_is_normalized_to_a_url(seed: str, url: str) -> None:
    assert seed_url(seed) == url


@cases(
    "seed",
    [
        *(
            "",
            "word",
            "wais://example.org/",
            "mailto:a@example.org",
            "javascript:alert(1)",
            "//example.org/",
        ),
        *(
            "http://",
            "http://:80/",
            "http://exa mple.org/",
            "https://a:99999/",
            "file:///etc/passwd",
        ),
        *("example.org:port/", "-", ".", "http:example", "data:text/html,x.y"),
    ],
)
def test_invalid_seed_is_named_in_the_error(seed: str) -> None:
    with pytest.raises(InvalidURL) as raised:
        seed_url(seed)
    assert repr(seed) in str(raised.value) or repr(f"https://{seed}") in str(raised.value)


@given(st.text(max_size=40).filter(lambda text: not text.startswith("@")))
def test_any_text_gives_urls_or_crawl_errors(text: str) -> None:
    for seed in read_seeds(text):
        assert not set(seed) & set(" ,\n\t")
        try:
            url = seed_url(seed)
        except CrawlError:
            continue
        assert url.startswith(("http://", "https://"))
        assert seed_url(url) == url
