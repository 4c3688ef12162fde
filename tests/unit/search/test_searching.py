"""Queries: what they find, in which order, with which snippets; and that no words make a search fail."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.cases import cases
from tests.metadata import NOW
from tests.unit.search.indexes import SITE, Pages, page
from webcrawl.errors import ConfigurationError
from webcrawl.search.query import DEEPEST, LONGEST, Filters
from webcrawl.search.schema import MEDIA
from webcrawl.search.searching import MOST_COPIES, Search

FILLER = " ".join(f"filler{number}" for number in range(400))
PAGES = (
    page("/text", f"A heron fishes. {FILLER}"),
    page("/title", FILLER, title="The heron"),
    page("/often", f"heron heron heron {FILLER}"),
    page("/poor", f"A bittern. {FILLER}", importance=0.0),
    page("/rich", f"A bittern. {FILLER}", importance=90.0),
    page("/de", "Die Häuser der Störche stehen", language="de"),
    page("/en", "The houses of running storks are standing"),
    page("/fr", "Les cigognes ont été élevées près du café", language="fr"),
    page("/ja", "東京タワーは東京都港区にある。", language="ja"),
    page("/th", "ภาษาไทยไม่มีช่องว่าง", language="th"),
    page("/hi", "हिन्दी में एक वाक्य", language="hi"),
    page("/tr", "Leylekler \u0130stanbul'dan geçer", language="tr"),
    page("/ko", "황새는 굴뚝 위에 둥지를 짓는다", language="ko"),
    page("/marks", "Des oisea\u0302tres l\u00e9gers", language="fr", title="Ge\u0301ne\u0301ral"),
    page("/none", "Wasser läuft running", language=None),
    page("/likely", "Die Katzen schnurren", language=None, details={"languages": {"detected": "de"}}),
    page("/old", "An egret", fetched_at=datetime(2025, 1, 1, tzinfo=UTC)),
    page("/new", "An egret", fetched_at=datetime(2026, 6, 1, 12, tzinfo=UTC), crawl="news"),
    page("/pdf", "An egret", mime_type="application/pdf"),
    page("https://docs.example.org:8080/a", "An egret"),
    page("https://example.org/a", "An egret"),
    page("https://badexample.org/a", "An egret"),
    page("/first", "A kite flies", digest="one"),
    page(
        "/copy", "A kite flies", digest="one", title="", duplicate_of=f"{SITE}/first", duplicate_kind="exact"
    ),
    page("/near", "A kite flies on", duplicate_of=f"{SITE}/first", duplicate_kind="near"),
    page("/apart", "Another kite"),
    page("/said", "O'Reilly don\u2019t sell pelicans", language=None),
    page("/cities", "札幌 函館", language="ja"),
)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    pages = Pages(tmp_path_factory.mktemp("pages"))
    pages.store(*PAGES)
    pages.index()
    return pages


@pytest.fixture(scope="module")
def search(pages: Pages) -> Search:
    return pages.search()


def test_titles_count_more_than_texts_and_important_pages_more_than_others(pages: Pages) -> None:
    assert pages.urls("heron") == ["/title", "/often", "/text"]
    assert pages.urls("bittern") == ["/rich", "/poor"]


@cases(
    ("words", "expected"),
    [
        ("house", ["/en"]),
        ("haus", ["/de"]),
        ("HÄUSER", ["/de"]),
        ("run", ["/en"]),
        ("running", ["/en", "/none"]),
        ("cafe", ["/fr"]),
        ("élevé", ["/fr"]),
        ("東京", ["/ja"]),
        ("京東", []),
        ("タワー", ["/ja"]),
        ("ไทย", ["/th"]),
        ("हिन्दी", ["/hi"]),
        *((word, ["/tr"]) for word in ("istanbul", "\u0130stanbul", "ISTANBUL", "\u0130STANBUL")),
        ("둥지", ["/ko"]),
        ("굴뚝 둥지를", ["/ko"]),
        ("지둥", []),
        *((word, ["/marks"]) for word in ("oiseâtres", "oiseatres", "oisea\u0302tres", "general")),
        ("katze", ["/likely"]),
        ('"running storks"', ["/en"]),
        ('"storks running"', []),
        ("houses -storks", []),
        ("title:heron", ["/title"]),
        ("heron AND fishes", ["/text"]),
        ("heron AND NOT fishes", ["/often", "/title"]),
        ("NOT (fishes OR title:heron) AND heron", ["/often"]),
        ('heron NOT "NOT often"', ["/often", "/text", "/title"]),
        ('"running storks"~1', ["/en"]),
        ("storks^3 houses", ["/en"]),
        ("url:example", []),
        (f'url:"{SITE}/en"', ["/en"]),
        ("type:application/pdf", ["/pdf"]),
        ("host:docs.example.org egret", ["https://docs.example.org:8080/a"]),
        ("crawl:news", ["/new"]),
    ],
)
def test_words_are_found_as_their_language_inflects_them(
    pages: Pages, words: str, expected: list[str]
) -> None:
    assert sorted(pages.urls(words)) == sorted(expected)


def test_a_crawl_without_pages_is_named_with_those_that_have_some(search: Search) -> None:
    assert search.find("egret", Filters(crawl="news")).total == 1
    with pytest.raises(ConfigurationError) as error:
        search.find("egret", Filters(crawl="new"))
    assert str(error.value) == (
        "no page in the index was fetched last by crawl 'new'; crawls in it: broad, news"
    )


def test_if_no_page_has_all_words_those_with_some_are_found(search: Search) -> None:
    assert search.find("heron fishes").has_all
    found = search.find("heron unheardof")
    assert not found.has_all and found.total == 3
    assert search.find("unheardof").total == 0


@cases(
    ("filters", "expected"),
    [
        (Filters(host="www.example.org"), {"/old", "/new", "/pdf"}),
        (Filters(host="Example.org"), {"/old", "/new", "/pdf", "docs", "top"}),
        (Filters(host="https://docs.example.org:8080/x"), {"docs"}),
        (Filters(host="docs.example.org"), {"docs"}),
        (Filters(host="xample.org"), set()),
        (Filters(types=["application/pdf"]), {"/pdf"}),
        (Filters(types=["application/*", "image/png"]), {"/pdf"}),
        (Filters(since=NOW + timedelta(days=1)), {"/new"}),
        (Filters(until=NOW - timedelta(days=1)), {"/old"}),
        (Filters(since=datetime(2026, 6, 1, 14, tzinfo=UTC)), set()),
        (Filters(since=datetime(2500, 1, 1, tzinfo=UTC)), set()),
        (Filters(since=datetime.max.replace(tzinfo=UTC), until=datetime.min.replace(tzinfo=UTC)), set()),
        (Filters(since=NOW + timedelta(days=1), until=datetime.max.replace(tzinfo=UTC)), {"/new"}),
        (Filters(crawl="news"), {"/new"}),
        (Filters(languages=["de"]), set()),
        (Filters(languages=["en", "de"], crawl="news"), {"/new"}),
    ],
)
def test_filters_leave_pages_out(pages: Pages, filters: Filters, expected: set[str]) -> None:
    names = {"https://docs.example.org:8080/a": "docs", "https://example.org/a": "top"}
    assert {names.get(url, url) for url in pages.urls("egret", filters, 20)} == expected


def test_scores_do_not_depend_on_filters(search: Search) -> None:
    plain = {hit.entry.url: hit.score for hit in search.find("egret", limit=20).hits}
    assert len(plain) == 6
    for hit in search.find("egret", Filters(host="example.org", types=["text/html"]), 20).hits:
        assert hit.score == pytest.approx(plain[hit.entry.url])


def test_copies_are_one_result(search: Search) -> None:
    found = search.find("kite")
    assert [hit.entry.url for hit in found.hits if not hit.copies] == [f"{SITE}/apart"]
    (hit,) = [hit for hit in found.hits if hit.copies]
    assert {hit.entry.url, *hit.copies} == {f"{SITE}/{name}" for name in ("first", "copy", "near")}
    assert found.total == 4
    assert {hit.entry.title for hit in found.hits} == {"A page"}, "a copy has the facts of the first page"
    one = search.find("kite", limit=1)
    assert len(one.hits) == 1


def test_a_limit_is_reached_behind_many_copies(tmp_path: Path) -> None:
    pages = Pages(tmp_path)
    copies = [page(f"/{number}", "kite", duplicate_of=f"{SITE}/0") for number in range(60)]
    pages.store(*copies, *(page(f"/other{number}", f"kite {FILLER}") for number in range(3)))
    pages.index()
    hits = pages.hits("kite", limit=3)
    assert len(hits) == 3 and len(hits[0].copies) == MOST_COPIES


def places(tmp: Pages, text: str, words: str) -> list[str]:
    (hit,) = tmp.hits(words)
    return [hit.snippet[start:end] for start, end in hit.marks]


def test_snippets_mark_the_words(pages: Pages, tmp_path: Path) -> None:
    assert places(pages, "", "haus") == ["Häuser"]
    assert places(pages, "", "東京") == ["東京", "東京"]
    assert places(pages, "", "istanbul") == ["\u0130stanbul"]
    assert places(pages, "", "둥지") == ["둥지"]
    assert places(pages, "", "oiseatres") == ["oise\u00e2tres"]
    own = Pages(tmp_path)
    late = "ü \n" * 120_000 + "the 🦩 flamingo stands"
    own.store(page("/late", late), page("/title", "some text\nof it", title="Spoonbill"))
    own.index()
    (hit,) = own.hits("flamingos")
    assert [hit.snippet[start:end] for start, end in hit.marks] == ["flamingo"] and "🦩" in hit.snippet
    (hit,) = own.hits("spoonbill")
    assert (hit.snippet, hit.marks) == ("some text of it", [])


@cases(
    ("words", "path"),
    [
        *((words, "/said") for words in ("don't", "don\u2019t", "O'Reilly sell", "o'reil*", "'tis OR don't")),
        *(
            (words, "/said")
            for words in ("pelicans'", "'sell pelicans'", "pelican*?", '"sell pel"*?', "pelican*, sell")
        ),
        ("札幌\u3000函館", "/cities"),
        *((f"sell{space}pelicans", "/said") for space in ("\u00a0", "\u2003", "\u0085", "\f")),
        ("pelicans AND\u3000NOT\u3000heron", "/said"),
    ],
)
def test_apostrophes_and_all_white_space_are_no_signs(pages: Pages, words: str, path: str) -> None:
    assert pages.urls(words) == [path]


def test_an_error_shows_the_query_as_it_was_typed(search: Search) -> None:
    with pytest.raises(ConfigurationError) as error:
        search.find("C++ pelican*(don't")
    assert str(error.value).startswith('"C++ pelican*(don\'t" is not a query. Put')


WRONG = {
    "crawl:bob's": "is not a query",
    "a AND": "is not a query",
    '"a': "is not a query",
    "author:b": "'author' before a colon is not a field; the fields are text, title, anchors",
    "-a": "add a word",
    "http://example.org": "is not",
    "/a.*/": "is not a query",
    " ": "give the words",
    "(" * 30 + "a": f"more than {DEEPEST} nested",
    "(a " * 30: f"more than {DEEPEST} nested",
    "x" * (LONGEST + 1): "1,001 characters",
    "fetched:yesterday": "is not a query",
    "crawl:*": "cannot be searched for any value",
}


@cases("words", WRONG, ids=range(len(WRONG)))
def test_wrong_queries_are_one_sentence(search: Search, words: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        search.find(words)
    assert WRONG[words] in str(error.value) and "\n" not in str(error.value)


PARTS = [
    *"\u2019\u3000\xa0?",
    *"ab 東é:()[]{}+-*^~\"'\\/<>=!?&|.,#@$%0\x00\x1b\n\u202e",
    " AND ",
    " OR ",
    "NOT ",
    " TO ",
    "IN ",
    *("text:", "fetched:", "language:", "weight:", "*"),
]
SIGNS = st.lists(st.sampled_from(PARTS), max_size=40).map("".join)


@settings(max_examples=60, deadline=None)
@given(words=st.one_of(SIGNS, st.text(max_size=40)))
def test_no_words_make_a_search_fail(search: Search, words: str) -> None:
    try:
        found = search.find(words)
    except ConfigurationError as error:
        assert len(str(error)) < 1_000
    else:
        for hit in found.hits:
            assert all(0 <= start < end <= len(hit.snippet) for start, end in hit.marks)


def test_media_are_found_by_what_is_known_of_them(tmp_path: Path) -> None:
    pages = Pages(tmp_path)
    photo = {"width": 640, "height": 480, "exif": {"Model": "Leica Q"}, "dhash": "00ff"}
    song = {"duration": 61.5, "tags": {"album": "Birdsong"}, "streams": [{"kind": "audio", "codec": "Opus"}]}
    pages.store(
        page("/img/white%20stork-nest.jpg", mime_type="image/jpeg", title="", details=photo),
        page("/1.ogg", mime_type="audio/ogg", title="Dawn", author="A stork", details=song),
        page("/stork", "A stork"),
    )
    assert pages.index().pages == 3 and pages.read == [f"{SITE}/stork"]
    media = Filters(kinds=MEDIA)
    assert pages.urls("stork") == ["/stork"]
    assert set(pages.urls("storks", media)) == {"/img/white%20stork-nest.jpg", "/1.ogg"}
    assert pages.urls("leica", media) == ["/img/white%20stork-nest.jpg"]
    assert pages.urls("birdsong dawn", media) == ["/1.ogg"]
    assert pages.urls("stork", Filters(kinds=MEDIA, types=["image/*"])) == ["/img/white%20stork-nest.jpg"]
    (hit,) = pages.hits("leica", media)
    assert hit.entry.details == photo


def strange() -> Iterator[dict[str, Any]]:
    yield page("/nul", "zero \x00 \ud800 kiwi", title="a\x00b")
    yield page("/long", "kiwi " + "x" * 2_000_000)
    yield page("/empty", "", title="")
    yield page("/time", "kiwi", fetched_at=datetime(9999, 12, 31, tzinfo=UTC), importance=float("inf"))
    yield page("/tag", "kiwi", language="xx-" + "y" * 300, mime_type="strange")


def test_strange_texts_are_indexed(tmp_path: Path) -> None:
    pages = Pages(tmp_path)
    pages.store(*strange())
    assert pages.index().pages == 5
    assert sorted(pages.urls("kiwi")) == ["/long", "/nul", "/tag", "/time"]
    assert pages.index().planned == 0
