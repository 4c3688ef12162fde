"""Each term weighs one property, within bounds, and in steps that add up exactly."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.config.parts import PRIORITIZERS
from webcrawl.policies import mined_terms, terms
from webcrawl.policies.priorities import Prioritizer, Prospect, Term

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
TODAY = date(2026, 11, 23)
DAY = 86_400.0
BUILT_IN: list[Term] = [
    *(terms.LinkDepth(), terms.PathDepth(), terms.Length(), terms.Parameters(), terms.DateInUrl()),
    *(terms.AnchorWords({"a": 1.5, "b": -2.0}), terms.Freshness(), terms.NewLink(), terms.Importance()),
]
SEGMENT = st.text("abc019-_.%~", max_size=30)
PATHS = st.builds(
    lambda segments, query: "/" + "/".join(segments) + query,
    st.lists(st.one_of(SEGMENT, st.sampled_from(["2026", "11", "23", "1999", "2031-02"])), max_size=14),
    st.one_of(st.just(""), st.text("?a=b&/2026-11", max_size=40).map("?".__add__)),
)


def of(path: str = "/a/b/c", **more: Any) -> Prospect:
    return Prospect(f"http://h.example{path}", path, now=NOW, **more)


@given(
    PATHS,
    st.integers(0, 2**31),
    st.text(max_size=20),
    st.none() | st.floats(-1e12, 1e12),
    st.none() | st.floats(0, 1e10),
    st.none() | st.floats(),
)
def test_every_weight_is_bounded_and_a_multiple_of_a_sixteenth(
    path: str, depth: int, text: str, modified: float | None, period: float | None, rank: float | None
) -> None:
    if rank is not None and rank != rank:
        rank = None
    found = Prospect("http://h" + path, path, depth, "", NOW, text, modified, period, rank)
    for term in BUILT_IN:
        weight = term.weight(found)
        assert -3 <= weight <= 3 and weight * 16 == int(weight * 16), term
    assert 0 <= Prioritizer(BUILT_IN).level(found) <= 7


def test_links_that_are_new_on_a_known_page_come_first() -> None:
    term = terms.NewLink.from_config({"RECRAWL": True})
    assert term is not None
    assert (term.weight(of(is_new=True)), term.weight(of())) == (2.0, 0.0)
    assert terms.NewLink.from_config({}) is None


@given(PATHS, st.integers(0, 40))
def test_deeper_is_never_better(path: str, depth: int) -> None:
    for term in (terms.LinkDepth(), terms.PathDepth(), terms.Length(), terms.Parameters()):
        assert term.weight(of(path, depth=depth + 1)) <= term.weight(of(path, depth=depth))
        if "?" not in path:
            assert term.weight(of(f"{path.removesuffix('/')}/x/y")) <= term.weight(of(path))
            assert term.weight(of(f"{path}?a=1")) <= term.weight(of(path))


@cases(
    ("path", "weight"),
    [
        *(("/", 0.625), ("/?a/b/c", 0.625), ("/a", 0.25), ("/a/", 0.25), ("/a?x=/y/", 0.25), ("/a/b", 0.125)),
        *(("/a/b/c", 0.0), ("/a/b/c/d/", 0.0), ("/a/b/c/d/e", -0.25), ("/" + "a/" * 500, -1.25)),
    ],
)
def test_depth_of_paths(path: str, weight: float) -> None:
    assert terms.PathDepth().weight(of(path)) == weight


def test_depth_of_links_counts_unless_the_order_says_otherwise() -> None:
    weigh = terms.LinkDepth().weight
    assert [weigh(of(depth=depth)) for depth in (0, 1, 2, 3, 6, 10, 9999)] == [0, 0, 0, -0.125, -0.5, -1, -1]
    assert terms.LinkDepth.from_config({}) is not None
    assert terms.LinkDepth.from_config({"FRONTIER_ORDER": "depth-first"}) is None


@cases(("characters", "weight"), [(1, 0), (80, 0), (81, -0.125), (100, -0.125), (101, -0.25), (9000, -1)])
def test_length(characters: int, weight: float) -> None:
    assert terms.Length().weight(of("/" + "a" * (characters - 1))) == weight


@cases(
    ("query", "weight"),
    [("", 0), ("?a", -0.375), ("?a=1&b=2", -0.625), ("?a&b&c", -0.875), ("?" + "&" * 90, -1.625)],
)
def test_parameters(query: str, weight: float) -> None:
    assert terms.Parameters().weight(of("/a" + query)) == weight


@cases(
    ("path", "weight"),
    [
        *(("/2026/11/23/x", 0.75), ("/2026/11/16/x", 0.75), ("/2026/11/15/x", 0.25), ("/2026-11-24/", 0.75)),
        *(
            ("/2026/11/26/", -0.75),
            ("/2027/01/", -0.75),
            ("/2026/11/", 0.75),
            ("/2026/10/", 0.25),
            ("/2026/1/", 0.25),
        ),
        *(("/2024/5/6/", 0.0), ("/1999/12/31", -0.375), ("/n-2026-11-20.html", 0.75), ("/2026/02/31/", 0.0)),
        *(("/2026/", 0.0), ("/2026/13/", 0.0), ("/92026/11/23/", 0.0), ("/2026/11-23/", 0.75), ("/abc", 0.0)),
    ],
)
def test_dates_in_urls(path: str, weight: float) -> None:
    assert terms.DateInUrl().weight(of(path)) == weight


@given(st.integers(0, 4000), st.integers(0, 4000))
def test_a_later_date_up_to_today_is_never_worse(one: int, other: int) -> None:
    newer, older = (f"/{TODAY - timedelta(days=days):%Y/%m/%d}/" for days in sorted((one, other)))
    assert terms.DateInUrl().weight(of(newer)) >= terms.DateInUrl().weight(of(older))


def test_anchor_words() -> None:
    term = terms.AnchorWords.from_config({"ANCHOR_WORDS": '{"next|weiter": 1, "log ?in": -2, "ne": 0.5}'})
    assert term is not None and term.needs_text
    texts = ("", "NEXT page", "Weiter", "Login", "next log in", "other")
    assert [term.weight(of(text=text)) for text in texts] == [0, 1.5, 1, -2, -0.5, 0]
    assert terms.AnchorWords({"a": 9.0}).weight(of(text="a")) == 3
    assert terms.AnchorWords.from_config({}) is None


@cases(
    ("age", "period", "rank", "weight"),
    [
        *((0.5, None, None, 1.25), (1, None, None, 1.25), (7, None, None, 1.0), (31, None, None, 0.5)),
        *(
            (32, None, None, 0.0),
            (-0.1, None, None, 0.0),
            (None, None, None, 0.0),
            (None, 3600.0, None, 0.375),
        ),
        *((None, 7 * DAY, None, 0.125), (None, 30 * DAY, None, 0.0), (None, 365 * DAY, None, -0.25)),
        *((None, None, 0.0, -0.5), (None, None, 0.5, 0.0), (None, None, 1.0, 0.5), (0, 0.0, 0.8, 1.9375)),
    ],
)
def test_what_a_sitemap_says(
    age: float | None, period: float | None, rank: float | None, weight: float
) -> None:
    modified = None if age is None else NOW - age * DAY
    assert terms.Freshness().weight(of(modified=modified, period=period, rank=rank)) == weight


def test_the_default_order_is_start_pages_then_short_paths_then_deep_ones() -> None:
    chain = Prioritizer([term for term in BUILT_IN if not term.needs_text])
    paths = ["/", "/a", "/a/b/c/d/e/f", "/a/b/c/d/e/f?x=1&y=2", "/" + "a/" * 12 + "b" * 120 + "?a&b&c&d"]
    assert [chain.level(of(path)) for path in paths] == [2, 3, 4, 4, 6]
    assert [chain.level(of("/a/b", depth=depth)) for depth in (1, 4, 9, 99)] == [3, 3, 4, 4]


def test_the_default_chain_names_every_term() -> None:
    named = {path.rpartition(".")[2] for path in PRIORITIZERS}
    defined = {
        name
        for name, one in {**vars(terms), **vars(mined_terms)}.items()
        if isinstance(one, type) and issubclass(one, Term) and one not in (Term, mined_terms.MinedTerm)
    }
    assert named == defined
