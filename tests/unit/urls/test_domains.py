"""Lists of domains: which names they cover, how large they may be, and which entries are wrong."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.errors import ConfigurationError
from webcrawl.urls.domains import DomainFilter, Domains, read_domains

LABELS = st.sampled_from(["a", "b", "c", "com", "example"])
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)


@given(st.lists(NAMES, max_size=30), NAMES, st.sampled_from(["", ":81"]))
def test_a_domain_covers_itself_and_the_names_under_it(names: list[str], name: str, port: str) -> None:
    expected = any(name == one or name.endswith(f".{one}") for one in names)
    assert Domains(names).covers(f"http://{name}{port}/x?http://a.b/") is expected


@cases(
    ("entry", "url", "covered"),
    [
        ("Example.ORG", "http://www.example.org/", True),
        ("example.org.", "http://example.org./", True),
        ("bücher.example", "https://shop.xn--bcher-kva.example/", True),
        ("xn--bcher-kva.example", "https://xn--bcher-kva.example/", True),
        ("127.0.1.1", "http://127.0.1.1:8080/", True),
        ("0x7f.1", "http://127.0.0.1/", True),
        ("127.0.1.1", "http://127.0.1.11/", False),
        ("1.1", "http://127.0.1.1/", False),
        ("[::1]", "http://[::1]:81/", True),
        ("::1", "http://[::1]/", True),
        ("localhost", "http://localhost:9/", True),
        ("org", "http://example.org/", True),
        ("example.org", "http://notexample.org/", False),
        ("a_b.example", "http://a_b.example/", True),
    ],
)
def test_spellings_of_domains(entry: str, url: str, covered: bool) -> None:
    domains = read_domains({"DENIED_DOMAINS": [entry]}, "DENIED_DOMAINS")
    assert domains is not None and domains.covers(url) is covered


@pytest.mark.parametrize(
    ("entry", "fault"),
    [
        ("https://example.org", "has a scheme"),
        ("example.org/a", "has a path"),
        ("example.org:8080", "has a port"),
        ("*.example.org", "has a wildcard"),
        ("me@example.org", "has a user name"),
        ("exa mple.org", "is not a domain"),
        ("1.2.3.4.5", "is not a domain"),
    ],
)
def test_a_wrong_entry_is_named_with_its_place(entry: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"DENIED_DOMAINS, entry 2: .* {fault}"):
        DomainFilter.from_config({"DENIED_DOMAINS": ["example.com", entry]})
    path = tmp_path / "domains.txt"
    path.write_text(f"# mine\nexample.com # good\n\n{entry}\n")
    with pytest.raises(ConfigurationError, match=f"ALLOWED_DOMAINS, line 4 of {path}: .* {fault}"):
        DomainFilter.from_config({"ALLOWED_DOMAINS": [f"@{path}"]})


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing", tmp_path, tmp_path / "binary"):
        with pytest.raises(ConfigurationError, match=f"ALLOWED_DOMAINS: '@{path}' cannot be read"):
            DomainFilter.from_config({"ALLOWED_DOMAINS": f"@{path}"})


def test_denied_domains_win_and_an_empty_list_allows_all(tmp_path: Path) -> None:
    path = tmp_path / "allowed.txt"
    path.write_text("\ufeffexample.org\n  example.com\n")
    both = DomainFilter.from_config(
        {"ALLOWED_DOMAINS": [f"@{path}", "a.test"], "DENIED_DOMAINS": "x.example.org"}
    )
    urls = [f"http://{name}/" for name in ("example.org", "x.example.org", "example.com", "a.test", "b.test")]
    assert [both.apply(url) is not None for url in urls] == [True, False, True, True, False]
    assert all(DomainFilter.from_config({}).apply(url) == url for url in urls)
    path.write_text("b.test\n")
    changed = read_domains({"ALLOWED_DOMAINS": [f"@{path}"]}, "ALLOWED_DOMAINS")
    assert changed is not None and changed.covers(urls[-1]) and not changed.covers(urls[0])


def test_a_file_of_nothing_allows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "none.txt"
    path.write_text("# nothing yet\n")
    assert DomainFilter.from_config({"ALLOWED_DOMAINS": [f"@{path}"]}).apply("http://a.test/") is None


def test_a_long_list_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "domains.txt"
    path.write_text("".join(f"site-{number}.example\n" for number in range(50_000)))
    tracemalloc.start()
    try:
        domains = read_domains({"DENIED_DOMAINS": [f"@{path}"]}, "DENIED_DOMAINS")
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert domains is not None and len(domains) == 50_000
    assert domains.covers("http://www.site-49999.example/") and not domains.covers(
        "http://site-50000.example/"
    )
    assert kept < 20 * 50_000, "bytes a domain: 8, and the table of first bits"
