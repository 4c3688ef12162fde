"""URL filters: each alone, from a configuration, and in a chain."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.errors import ConfigurationError
from webcrawl.urls import filters
from webcrawl.urls.filters import FilterChain, FilterVerdict, URLFilter
from webcrawl.urls.scope import Scope

SCOPE = Scope("host", ["http://h/"])
FILTERS = [each for each in vars(filters).values() if isinstance(each, type) and issubclass(each, URLFilter)]
FILTERS.remove(URLFilter)


@cases(
    ("one", "url", "kept"),
    [
        (filters.SchemeFilter(), "https://h/", True),
        (filters.SchemeFilter(), "ftp://h/", False),
        (filters.SchemeFilter(["https"]), "http://h/", False),
        (filters.SchemeFilter.from_config({"DOWNLOAD_HANDLERS": {"ftp": "a.B"}}), "ftp://h/", True),
        (filters.SchemeFilter.from_config({"DOWNLOAD_HANDLERS": {"ftp": "a.B"}}), "http://h/", True),
        (filters.SchemeFilter.from_config({"DOWNLOAD_HANDLERS": {"ftp": None}}), "ftp://h/", False),
        (filters.SchemeFilter.from_config({"DOWNLOAD_HANDLERS": {"http": None}}), "http://h/", False),
        (filters.SchemeFilter.from_config({}), "ftp://h/", False),
        (filters.LengthFilter(12), "http://h/123", True),
        (filters.LengthFilter(12), "http://h/1234", False),
        (filters.LengthFilter(), "http://h/" + "a" * 2075, False),
        (filters.LengthFilter(0), "http://h/" + "a" * 99999, True),
        (filters.PatternFilter(), "http://h/", True),
        (filters.PatternFilter(deny=["/x/", "y$"]), "http://h/ya", True),
        (filters.PatternFilter(deny=["/x/", "y$"]), "http://h/ay", False),
        (filters.PatternFilter(allow=["/x/", "y$"]), "http://h/ay", True),
        (filters.PatternFilter(allow=["/x/", "y$"]), "http://h/ya", False),
        (filters.PatternFilter(allow=["/x/"], deny=["(?i)Z"]), "http://h/x/z", False),
        (filters.ExtensionFilter(), "http://h/a.zip", True),
        (filters.ExtensionFilter(["zip", ".TAR.gz"]), "http://h/a.ZIP?x", False),
        (filters.ExtensionFilter(["zip", ".TAR.gz"]), "http://h/a.tar.gz", False),
        (filters.ExtensionFilter(["zip"]), "http://h/zip", True),
        (filters.ExtensionFilter(["zip"]), "http://h.zip/", True),
        (filters.ExtensionFilter(["zip"]), "http://h/?a.zip", True),
        (filters.RepeatedSegmentsFilter(), "http://h/a/b/a/b/a/b", False),
        (filters.RepeatedSegmentsFilter(), "http://h/x/a/b/a/b/a/b/c?q", False),
        (filters.RepeatedSegmentsFilter(), "http://h/a/b/a/b/a/c", True),
        (filters.RepeatedSegmentsFilter(), "http://h/a/b/a/c/a/d", True),
        (filters.RepeatedSegmentsFilter(), "http://h/a/a/a", False),
        (filters.RepeatedSegmentsFilter(), "http://h/2011/11/11/", True),
        (filters.RepeatedSegmentsFilter(), "http://h/aa/a/aa", True),
        (filters.RepeatedSegmentsFilter(), "http://h/?/a/a/a", True),
        (filters.RepeatedSegmentsFilter(2), "http://h/a/b/a/b", False),
        (filters.RepeatedSegmentsFilter(0), "http://h/a/a/a/a", True),
        (filters.QueryFilter(2), "http://h/?a&b=1", True),
        (filters.QueryFilter(2), "http://h/?a&&b=1&", True),
        (filters.QueryFilter(2), "http://h/?a&b&c", False),
        (filters.QueryFilter(0), "http://h/?" + "a&" * 500, True),
        (filters.ScopeFilter(SCOPE), "http://h/x", True),
        (filters.ScopeFilter(SCOPE), "http://i/x", False),
    ],
)
def test_filter_keeps_or_drops_the_url(one: URLFilter, url: str, kept: bool) -> None:
    assert one.apply(url) == (url if kept else None)


@given(st.lists(st.sampled_from("ab"), max_size=12), st.integers(2, 4))
def test_repeated_segments_match_the_reference_expression(segments: list[str], times: int) -> None:
    """A regular expression with a back-reference is the slow reference."""
    path = "".join(f"/{segment}" for segment in segments)
    repeated = re.search(rf"((?:/[^/]*)+?)\1{{{times - 1}}}(?=/|$)", path) is not None
    assert (filters.RepeatedSegmentsFilter(times).apply(f"http://h{path}") is None) == repeated


def test_every_filter_has_a_reason_and_a_docstring() -> None:
    for each in FILTERS:
        assert each.why.endswith(".") and each.__doc__


@cases(
    ("config", "dropped"),
    [
        ({"URLLENGTH_LIMIT": 20}, "http://h/" + "a" * 12),
        ({"URLLENGTH_LIMIT": "20"}, "http://h/" + "a" * 12),
        ({"URL_ALLOW": ["/docs/"]}, "http://h/"),
        ({"URL_ALLOW": "/docs(,){0,1}/,/more/"}, "http://h/"),
        ({"URL_DENY": ("/private/",)}, "http://h/private/"),
        ({"URL_DENY_EXTENSIONS": "zip, exe"}, "http://h/a.exe"),
        ({"URL_DENY_EXTENSIONS": ["zip", "exe"]}, "http://h/a.zip"),
        ({"URL_MAX_PARAMETERS": 1}, "http://h/?a&b"),
        ({"URL_MAX_REPEATED_SEGMENTS": 2}, "http://h/a/a"),
        ({}, "http://h/a/a/a"),
        ({}, "http://h/?" + "&".join("abcdefghijklmnopqrstu")),
        ({}, "http://i/"),
    ],
)
def test_chain_reads_its_configuration(config: dict[str, object], dropped: str) -> None:
    chain = FilterChain.from_config({"SCOPE": SCOPE, **config}, FILTERS)
    assert chain.apply(dropped) is None
    assert chain.apply("http://h/docs/a") == "http://h/docs/a"


@cases(
    ("key", "value"),
    [
        ("URLLENGTH_LIMIT", "long"),
        ("URLLENGTH_LIMIT", "--1"),
        ("URLLENGTH_LIMIT", "-1"),
        ("URLLENGTH_LIMIT", True),
        ("URLLENGTH_LIMIT", None),
        ("URL_ALLOW", ["("]),
        ("URL_DENY", "*"),
        ("URL_DENY", [1]),
        ("URL_DENY", 1),
        ("URL_DENY_EXTENSIONS", 7),
        ("URL_DENY_EXTENSIONS", ["."]),
        ("URL_MAX_PARAMETERS", 1.5),
        ("URL_MAX_REPEATED_SEGMENTS", 1),
        ("URL_MAX_REPEATED_SEGMENTS", -3),
        ("SCOPE", "host"),
    ],
)
def test_invalid_value_names_its_key(key: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=key):
        FilterChain.from_config({"SCOPE": SCOPE, key: value}, FILTERS)


def test_invalid_expression_is_named_in_the_error() -> None:
    with pytest.raises(ConfigurationError, match=r"deny: '\(x'"):
        filters.PatternFilter(deny=["a", "(x"])


@cases(
    "make",
    [
        lambda: filters.LengthFilter(-1),
        lambda: filters.QueryFilter(-1),
        lambda: filters.RepeatedSegmentsFilter(1),
        lambda: filters.ExtensionFilter([""]),
    ],
)
def test_invalid_argument_is_rejected(make: Any) -> None:
    with pytest.raises(ConfigurationError):
        make()


class SecureFilter(URLFilter):
    """A custom filter that rewrites http to https."""

    why = "The site answers on https alone."

    def apply(self, url: str) -> str | None:
        return url.replace("http:", "https:", 1)


def test_chain_passes_on_rewritten_urls() -> None:
    chain = FilterChain([SecureFilter(), filters.PatternFilter(allow=["^https:"])])
    assert chain.apply("http://h/") == "https://h/"
    assert FilterChain([]).apply("http://h/") == "http://h/"


def test_verdicts_include_every_filter() -> None:
    chain = FilterChain([SecureFilter(), filters.LengthFilter(11), filters.ExtensionFilter(["zip"])])
    assert chain.verdicts("http://h/a.zip") == [
        FilterVerdict("SecureFilter", "https://h/a.zip", SecureFilter.why),
        FilterVerdict("LengthFilter", None, filters.LengthFilter.why),
        FilterVerdict("ExtensionFilter", None, filters.ExtensionFilter.why),
    ]


def test_custom_filter_can_be_added_to_the_list() -> None:
    chain = FilterChain.from_config({"SCOPE": SCOPE}, [*FILTERS, SecureFilter])
    assert chain.apply("http://h/a") == "https://h/a"
