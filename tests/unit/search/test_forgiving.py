"""Words with typing errors, prefixes, names with signs, facets, dates, and pages like another one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tests.cases import cases
from tests.unit.search.indexes import SITE, Pages, page
from webcrawl.errors import ConfigurationError
from webcrawl.search.prefixes import MOST_PREFIXES
from webcrawl.search.query import Filters
from webcrawl.search.searching import Search
from webcrawl.search.vocabulary import Vocabulary, edits

NAMES = ("C++", "C#", "F#", ".NET")
PAGES = (
    page("/map", "The ConcurrentHashMap class stores entries", title="Maps"),
    page("/concurrent", "A concurrent handle of a hash table", title="Handles"),
    page("/transactions", "Transactions are isolated from one another", title="Isolation"),
    page("/fr", "Les cigognes ont été élevées près du café", language="fr"),
    page("/de", "Die Störche brüten auf dem Schornstein", language="de"),
    page("/ja", "東京タワーは東京都港区にある。", language="ja"),
    *(page(f"/names/{number}", f"Written in {name}, for experts.") for number, name in enumerate(NAMES)),
    page("/plain", "Written in C and F, for the net of example.net, with i++ and a #hash"),
    page("/new", "heron", published_at=datetime(2025, 5, 5, tzinfo=UTC)),
    page("/newer", "a heron heron", fetched_at=datetime(2026, 1, 1, tzinfo=UTC)),
    page(
        "/future", "the heron", fetched_at=datetime(2025, 9, 1, tzinfo=UTC), published_at=datetime(2055, 5, 5)
    ),
    page("https://other.example.net/a", "heron", language="de", mime_type="application/pdf"),
    page("/birds/1", "Storks nest on chimneys near meadows and eat frogs of the meadows", title="Storks"),
    page("/birds/2", "A stork carries frogs from the meadows to the nest on a chimney", title="A stork"),
    page("/birds/3", "The stork nest on a chimney", duplicate_of=f"{SITE}/birds/1", duplicate_kind="near"),
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


@cases(
    ("words", "corrected", "path"),
    [
        ("transactoins", "transactions", "/transactions"),
        ("Isolatd transactions", "isolated transactions", "/transactions"),
        ("(transatcions OR giraffe) isolated", "(transactions OR giraffe) isolated", "/transactions"),
        ("title:isolatoin", "title:isolation", "/transactions"),
        ("concurent hash handle", "concurrent hash handle", "/concurrent"),
        ("concurent_handle", "concurrent_handle", "/concurrent"),
        ("cigognse elevees", "cigognes élevées", "/fr"),
        ("schornstien", "schornstein", "/de"),
        ("storche bruten", None, "/de"),
        ('"transactoins"', None, None),
        ("transactoins -isolated", None, None),
        ("isolated +transactoins", None, None),
        ("word12 tarnsactions", None, None),
        ("NOT isolatd AND tarnsactions", None, None),
        ("xyzzyx", None, None),
        ("nte", None, None),
    ],
)
def test_words_with_typing_errors_are_corrected(
    search: Search, words: str, corrected: str | None, path: str | None
) -> None:
    results = search.find(words)
    if path is None:
        assert not results.hits or results.corrected or not results.has_all
    else:
        assert results.corrected == corrected and results.has_all
        assert results.hits[0].entry.url == SITE + path


def test_known_words_are_not_corrected(search: Search) -> None:
    for words in ("transaction", "cafe", "heron", "C++", "storks"):
        results = search.find(words)
        assert results.total and results.corrected is None and results.suggested is None


def test_a_rare_word_is_found_and_a_frequent_one_suggested(tmp_path: Path) -> None:
    pages = Pages(tmp_path)
    pages.store(page("/typo", "a heorn"), *(page(f"/{number}", f"heron {number}") for number in range(30)))
    pages.index()
    results = pages.search().find("heorn")
    assert (results.total, results.corrected, results.suggested) == (1, None, "heron")
    results = pages.search().find("heorn 17")
    assert (results.total, results.corrected) == (1, "heron 17")


def test_a_filter_counts_for_corrections(search: Search) -> None:
    assert search.find("cigognse", Filters(languages=["fr"])).corrected == "cigognes"
    assert search.find("cigognse", Filters(languages=["de"])).corrected is None


WORDS = st.text("abcé", max_size=6)


def distance(one: str, other: str) -> int:
    """The optimal string alignment distance, by its definition."""
    best = {(i, 0): i for i in range(len(one) + 1)} | {(0, j): j for j in range(len(other) + 1)}
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            steps = [
                best[i - 1, j] + 1,
                best[i, j - 1] + 1,
                best[i - 1, j - 1] + (one[i - 1] != other[j - 1]),
            ]
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                steps.append(best[i - 2, j - 2] + 1)
            best[i, j] = min(steps)
    return best[len(one), len(other)]


@settings(max_examples=60, deadline=None)
@given(word=WORDS, others=st.lists(WORDS, max_size=5))
def test_edits_are_those_of_the_definition(word: str, others: list[str]) -> None:
    assert edits(word, others).tolist() == [distance(word, other) for other in others]


@settings(max_examples=40, deadline=None)
@given(
    words=st.lists(st.text("abcde", min_size=4, max_size=9), unique=True),
    word=st.text("abcde", min_size=4, max_size=9),
)
def test_the_nearest_words_are_similar(words: list[str], word: str) -> None:
    vocabulary = Vocabulary.of([(other, number) for number, other in enumerate(words, 1)])
    apart = {other: distance(word, other) for other in words}
    least = min(apart.values(), default=9)
    if least == 0:
        return
    expected = {other for other in words if apart[other] == least <= (2 if len(word) >= 8 else 1)}
    assert {similar.word for similar in vocabulary.similar(word)} == expected


def test_a_vocabulary_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = Vocabulary.of([("élevées", 3), ("heron", 1), ("12345", 9), ("a", 2)])
    written.write(tmp_path)
    read = Vocabulary.read(tmp_path)
    assert read is not None and len(read) == 2
    assert read.similar("elevees") == written.similar("elevees") == [("élevées", 0, 3)]
    (tmp_path / "words.npz").write_bytes(b"damaged")
    assert Vocabulary.read(tmp_path) is None
    np.savez(tmp_path / "words.npz", text=np.zeros(1))
    assert Vocabulary.read(tmp_path) is None


@cases(
    ("words", "expected"),
    [
        ("concurrentha*", ["/map"]),
        ("ConcurrentHa*", ["/map"]),
        ("concurrent*", ["/concurrent", "/map"]),
        ('"concurrent ha"*', ["/concurrent"]),
        ('"hash ta"*', ["/concurrent"]),
        ("title:isol*", ["/transactions"]),
        ("title:concurrent*", []),
        ("transacti* -isolated", []),
        ("transacti*^3 OR schornst*", ["/de", "/transactions"]),
        ("élev*", ["/fr"]),
        ("東京タ*", ["/ja"]),
        ("nothingbegins*", []),
    ],
)
def test_prefixes_find_the_words_that_begin_with_them(pages: Pages, words: str, expected: list[str]) -> None:
    assert sorted(pages.urls(words)) == expected


def test_short_and_many_prefixes_are_refused(search: Search) -> None:
    with pytest.raises(ConfigurationError, match=r"'c\*' is too short: give 2 characters"):
        search.find("c*")
    with pytest.raises(ConfigurationError, match=f"more than {MOST_PREFIXES} prefixes"):
        search.find(" ".join(["stork*"] * (MOST_PREFIXES + 1)))


@cases(("number", "name"), [*enumerate(NAMES)])
def test_names_with_signs_are_words(pages: Pages, number: int, name: str) -> None:
    expected = [f"/names/{number}"]
    for words in (name, name.lower(), f'"in {name}"', f"written {name}"):
        assert pages.urls(words) == expected, words
    (hit,) = pages.hits(name)
    assert hit.snippet == f"Written in {name}, for experts"
    assert [hit.snippet[start:end] for start, end in hit.marks] == [name]


def test_letters_find_no_names_with_signs(pages: Pages) -> None:
    assert pages.urls("F") == pages.urls("net") == pages.urls("example.net") == ["/plain"]


def test_facets_count_all_results(search: Search) -> None:
    facets = search.find("heron", limit=1, facets=True).facets
    assert facets == {
        "host": [("www.example.org", 3), ("other.example.net", 1)],
        "language": [("en", 3), ("de", 1)],
        "type": [("text/html", 3), ("application/pdf", 1)],
    }
    german = search.find("heron", Filters(languages=["de"]), facets=True)
    assert german.facets["host"] == [("other.example.net", 1)]
    assert not search.find("heron").facets


def test_by_date_the_newest_pages_come_first(search: Search) -> None:
    filters = Filters(host="www.example.org")
    urls = [hit.entry.url.removeprefix(SITE) for hit in search.find("heron", filters, by_date=True).hits]
    assert urls == ["/newer", "/future", "/new"], "a page is not published after it was fetched"
    assert [hit.entry.url for hit in search.find("heron", filters, 1, 1, by_date=True).hits] == [
        f"{SITE}/future"
    ]


def test_pages_like_another_have_its_words(search: Search) -> None:
    results = search.like(f"{SITE}/birds/1", facets=True)
    urls = [hit.entry.url.removeprefix(SITE) for hit in results.hits]
    assert urls[0] == "/birds/2" and not {"/birds/1", "/birds/3"} & {*urls}, "neither itself nor its copy"
    assert results.facets["language"] == [("en", len(urls))]
    assert not search.like(f"{SITE}/birds/1", Filters(languages=["de"])).hits
    assert not search.like(f"{SITE}/ja").hits
    with pytest.raises(ConfigurationError, match="not in the index"):
        search.like(f"{SITE}/nowhere")
