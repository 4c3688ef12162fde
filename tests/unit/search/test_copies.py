"""Copies of a text are found, whole or in part, with their share and passages."""

from __future__ import annotations

import random
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given, strategies as st

from tests.unit.search.indexes import SITE, Pages, page
from webcrawl.documents.simhash import simhash64
from webcrawl.errors import ConfigurationError
from webcrawl.search.copies import SHINGLE, Copy, Original, copies_of, unstored, words_of

DICE = random.Random(3)
WORDS = [f"{start}{end}" for start in ("fox", "owl", "elk", "bee", "ant") for end in range(200)]


def prose(words: int, seed: int) -> str:
    """Words of different frequencies, in sentences."""
    dice = random.Random(seed)
    return " ".join(WORDS[int(len(WORDS) ** dice.random()) - 1] for _ in range(words))


def changed(text: str, share: float) -> str:
    """The text with some words replaced."""
    dice = random.Random(5)
    return " ".join("other" if dice.random() < share else word for word in text.split())


ORIGINAL = prose(600, 1)
HALF = " ".join(ORIGINAL.split()[150:450])


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Pages:
    pages = Pages(tmp_path_factory.mktemp("pages"))
    texts = {
        "/same": ORIGINAL.upper().replace(" ", ",\n"),
        "/near": changed(ORIGINAL, 0.01),
        "/changed": changed(ORIGINAL, 0.10),
        "/quote": f"{prose(800, 2)} {HALF} {prose(800, 3)}",
        "/phrase": f"{prose(900, 4)} {' '.join(HALF.split()[:12])} {prose(900, 5)}",
        **{f"/{number}": prose(500, 100 + number) for number in range(60)},
    }
    pages.store(*(page(path, text, simhash=simhash64(text)) for path, text in texts.items()))
    dropped = page("/dropped", "", simhash=simhash64(ORIGINAL), warc_file=None)
    pages.store(dropped)
    pages.index()
    return pages


def copies(pages: Pages, text: str, **options: object) -> dict[str, Copy]:
    about = {"least": 0.1, "bits": 3, **options}
    found = copies_of(pages.search(), text, "en", **about)  # type: ignore[arg-type]
    return {copy.entry.url.removeprefix(SITE): copy for copy in found}


def test_whole_and_partial_copies_are_found(pages: Pages) -> None:
    found = copies(pages, ORIGINAL)
    assert list(found)[:2] == ["/same", "/near"] and set(found) == {"/same", "/near", "/changed", "/quote"}
    assert found["/same"].share == 1.0 and found["/same"].distance == 0
    assert found["/quote"].share == pytest.approx(0.5, abs=0.02)
    assert found["/quote"].passages[0].text == HALF
    assert 0.3 < found["/changed"].share < 1 and len(found["/changed"].passages) > 10
    assert found["/same"].passages[0].text == ORIGINAL, "passages are those of the own text"


def test_a_share_and_the_own_page_are_left_out(pages: Pages) -> None:
    assert "/phrase" in copies(pages, ORIGINAL, least=0.01)
    assert set(copies(pages, ORIGINAL, least=0.99)) == {"/same"}
    assert "/same" not in copies(pages, ORIGINAL, leave_out=f"{SITE}/same")
    assert copies(pages, prose(300, 999)) == {}


def test_pages_with_the_whole_text_are_ordered_by_likeness_then_by_url(tmp_path: Path) -> None:
    pages = Pages(tmp_path)
    short = "A heron stands in the shallow water and waits for a fish"
    texts = {
        "/a": f"{prose(900, 6)} {ORIGINAL} {prose(900, 7)}",
        "/b": f"{ORIGINAL} {prose(60, 8)}",
        "/d": ORIGINAL,
        "/c": ORIGINAL,
        "/e": f"{short} in the evening, when nobody is there",
        "/f": f"{short} today",
    }
    pages.store(*(page(path, text, simhash=simhash64(text)) for path, text in texts.items()))
    pages.index()
    assert [copy.share for copy in copies(pages, ORIGINAL).values()] == [1.0] * 4
    assert list(copies(pages, ORIGINAL)) == ["/c", "/d", "/b", "/a"]
    assert list(copies(pages, short)) == ["/f", "/e"], "these are too short for a SimHash"


def test_of_more_near_pages_than_are_compared_the_nearest_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("webcrawl.search.copies.CANDIDATES", 1)
    pages, own = Pages(tmp_path), simhash64(ORIGINAL)
    assert own is not None
    pages.store(*(page(f"/{bits}", ORIGINAL, simhash=own ^ (2**bits - 1)) for bits in range(4)))
    pages.index()
    with monkeypatch.context() as patched:
        patched.setattr("webcrawl.search.copies._phrases", lambda *_: set())
        assert list(copies(pages, ORIGINAL)) == ["/0"]


def test_near_duplicates_without_a_stored_text_are_named(pages: Pages) -> None:
    with pages.metadata() as metadata:
        assert unstored(metadata, ORIGINAL, bits=3) == [(f"{SITE}/dropped", 0)]
        assert unstored(metadata, prose(300, 999), bits=3) == []
        assert unstored(metadata, "too short", bits=3) == []


@pytest.mark.parametrize("text", ["", " .,! "])
def test_a_text_without_words_is_refused(pages: Pages, text: str) -> None:
    with pytest.raises(ConfigurationError, match="no words"):
        copies(pages, text)


def test_short_and_unknown_texts_find_nothing(pages: Pages) -> None:
    assert copies(pages, "fox1") == copies(pages, "unheard of words in no page") == {}


def test_texts_without_spaces_are_compared_by_characters(tmp_path: Path) -> None:
    pages = Pages(tmp_path)
    text = "東京タワーは東京都港区にある総合電波塔であり、観光名所として知られている。"
    pages.store(
        page("/ja", f"はじめに。{text}おわり。", language="ja"), page("/x", "京都の寺は古い。", language="ja")
    )
    pages.index()
    (found,) = copies(pages, text).values()
    assert found.share == 1.0


def test_texts_with_composed_and_with_separate_accents_are_the_same(tmp_path: Path) -> None:
    pages = Pages(tmp_path)
    text = "Le général est léger, l'\u00e9t\u00e9 est passé, et \u0130zmir est loin de la forêt enchantée."
    pages.store(page("/nfc", text, language="fr"), page("/nfd", normalize("NFD", text), language="fr"))
    pages.index()
    for own in (text, normalize("NFD", text)):
        assert [copy.share for copy in copies(pages, own).values()] == [1.0, 1.0]


@given(st.lists(st.sampled_from("abc"), max_size=30), st.lists(st.sampled_from("abc"), max_size=30))
def test_the_share_is_that_of_the_words_in_common_shingles(one: list[str], two: list[str]) -> None:
    found = Original(" ".join(one)).overlap(" ".join(two))
    size = min(SHINGLE, max(1, len(one)))
    theirs = {tuple(two[place : place + size]) for place in range(len(two) - size + 1)}
    covered: set[int] = set()
    for place in range(len(one) - size + 1):
        if tuple(one[place : place + size]) in theirs:
            covered |= {*range(place, place + size)}
    assert found.share == pytest.approx(len(covered) / max(1, len(one)))
    assert sum(passage.words for passage in found.passages) == len(covered)
    assert all(len(words_of(passage.text)) == passage.words for passage in found.passages)
