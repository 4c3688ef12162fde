"""Scope: which URLs belong to a crawl, and how workers share it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.errors import ConfigurationError, InvalidURL
from webcrawl.urls.scope import Scope

SEEDS = ["HTTP://Www.Example.co.uk/a/b", "http://example.org:8080/", "http://127.0.1.1/", "http://[::1]:81/"]
SEEDS += ["http://localhost:9000", "http://intranet.:81/"]


@cases(
    ("url", "by_host", "by_domain"),
    [
        ("http://www.example.co.uk/", True, True),
        ("https://www.example.co.uk/c?d", True, True),
        ("https://www.example.co.uk:8443/", False, True),
        ("http://www.example.co.uk:443/", False, True),
        ("http://example.co.uk/", False, True),
        ("http://shop.example.co.uk/", False, True),
        ("http://other.co.uk/", False, False),
        ("http://notexample.co.uk/", False, False),
        ("http://www.example.co.uk.evil.example/", False, False),
        ("http://example.org:8080/x", True, True),
        ("http://example.org/", False, True),
        ("http://sub.example.org/", False, True),
        ("http://127.0.1.1/x", True, True),
        ("https://127.0.1.1/x", True, True),
        ("http://127.0.1.1:8080/", False, False),
        ("http://127.0.1.2/", False, False),
        ("http://[::1]:81/x", True, True),
        ("http://[::1]/", False, False),
        ("http://localhost:9000/x", True, True),
        ("http://localhost/", False, False),
        ("http://intranet.:81/x", True, True),
        ("http://intranet./", False, False),
        ("http://example.com/www.example.co.uk", False, False),
    ],
)
def test_scope_allows_its_hosts_or_domains(url: str, by_host: bool, by_domain: bool) -> None:
    assert Scope("host", SEEDS).allows(url) is by_host
    assert Scope("domain", SEEDS).allows(url) is by_domain
    assert Scope("web", SEEDS).allows(url)


def test_sites_under_a_public_suffix_are_separate_domains() -> None:
    scope = Scope("domain", ["https://one.github.io/"])
    assert scope.allows("https://docs.one.github.io/")
    assert not scope.allows("https://two.github.io/")
    assert not scope.allows("https://github.io/")


@cases(
    ("url", "allowed"),
    [
        ("http://example.org/docs/", True),
        ("https://example.org/docs/b/c?d", True),
        ("http://example.org/docs", False),
        ("http://example.org/docs2/", False),
        ("http://example.org/", False),
        ("http://example.org/?/docs/", False),
        ("http://example.org:81/docs/", False),
        ("http://www.example.org/docs/", False),
        ("http://example.com/anything?at=/all", True),
        ("http://[::1]:81/a/b/x", True),
        ("http://[::1]:81/a/", False),
        ("http://deep.example/" + "a/" * 31, True),
        ("http://deep.example/" + "a/" * 1000, True),
    ],
)
def test_a_scope_of_folders(url: str, allowed: bool) -> None:
    seeds = ["http://example.org/docs/start?x=/y/", "https://example.com/", "http://[::1]:81/a/b/"]
    scope = Scope("path", [*seeds, "http://deep.example/" + "a/" * 1000])
    assert scope.allows(url) is allowed
    assert scope.keys().isdisjoint(scope.keys_of(url)) is not allowed
    assert Scope.from_keys("path", scope.keys()).allows(url) is allowed


@given(
    st.lists(st.lists(st.sampled_from("abc"), max_size=4), max_size=5),
    st.lists(st.sampled_from("abc"), max_size=5),
)
def test_a_folder_has_all_that_begins_with_it(seeds: list[list[str]], path: list[str]) -> None:
    folders = ["http://h.example/" + "".join(f"{one}/" for one in seed) for seed in seeds]
    url = "http://h.example/" + "/".join(path)
    assert Scope("path", folders).allows(url) == any(url.startswith(folder) for folder in folders)


@pytest.mark.parametrize("kind", ["host", "domain"])
def test_redirected_seed_widens_the_scope(kind: Any) -> None:
    scope = Scope(kind, ["http://example.org/"])
    assert not scope.allows("https://www.example.com/")
    key = scope.widen("https://www.example.com/start")
    assert scope.allows("https://www.example.com/")
    assert scope.keys() == {"example.org", key}


def test_a_redirected_seed_does_not_widen_its_folder_to_those_above() -> None:
    scope = Scope("path", ["http://example.org/docs/en/"])
    assert [scope.widen(f"http://example.org{path}") for path in ("/login", "/docs/x", "/docs/en/x")] == [
        "",
        "",
        "",
    ]
    assert scope.widen("http://example.org/guide/") == "example.org/guide/"
    assert scope.widen("http://www.example.org/") == "www.example.org/"
    assert not scope.allows("http://example.org/docs/")


@cases("kind", ["path", "host", "domain", "web"])
def test_workers_share_a_scope_through_its_keys(kind: Any) -> None:
    local = Scope(kind, SEEDS)
    remote = Scope.from_keys(kind, local.keys())
    urls = [*(f"http://{name}/" for name in ("www.example.co.uk", "127.0.1.1", "[::1]:81", "new.example"))]
    assert [remote.allows(url) for url in urls] == [local.allows(url) for url in urls]
    key = local.add("http://new.example/")
    remote.admit_key(key)
    assert remote.allows("http://new.example/")
    assert remote.keys() == local.keys()


def test_keys_are_a_snapshot() -> None:
    scope = Scope("host", ["http://example.org/"])
    keys = scope.keys()
    scope.add("http://example.com/")
    assert keys == {"example.org"}
    assert Scope("web", SEEDS).keys() == frozenset()


def test_scope_without_seeds_allows_nothing() -> None:
    assert not Scope("host").allows("http://example.org/")


def test_invalid_kind_error_lists_the_valid_ones() -> None:
    wrong: Any = "site"
    with pytest.raises(ConfigurationError, match="'site'.*path, host, domain, web"):
        Scope(wrong, [])


@pytest.mark.parametrize("kind", ["host", "domain", "web"])
def test_invalid_seed_is_named_in_the_error(kind: Any) -> None:
    with pytest.raises(InvalidURL, match="'mailto:a@example.org'"):
        Scope(kind, ["mailto:a@example.org"])
