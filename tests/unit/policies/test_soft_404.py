"""The rules by which error pages with status 200 are recognized."""

from __future__ import annotations

from urllib.parse import urlsplit

from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.policies.soft_404 import (
    Print,
    UnknownPathAnswer,
    impossible,
    is_shell,
    may_be_error,
    text_print,
)

WORD = "q" * 24
numbers = st.integers(0, 2**64 - 1)
prints = st.builds(Print, numbers, numbers, numbers)
answers = st.one_of(
    st.builds(UnknownPathAnswer, st.integers(0, 599)),
    st.builds(UnknownPathAnswer, st.just(200), prints),
    st.builds(
        UnknownPathAnswer,
        st.integers(300, 308),
        target=st.sampled_from(["http://a.test/", "http://a.test/x?y=1"]),
    ),
    st.builds(UnknownPathAnswer, st.just(200), shell=st.just(True)),
)


@given(answers)
def test_an_answer_is_read_as_it_was_written(answer: UnknownPathAnswer) -> None:
    assert UnknownPathAnswer.decoded(answer.encoded()) == answer
    assert answer.about()


@given(prints, prints, st.integers(0, 7))
def test_likeness_is_mutual_and_grows_with_the_distance(one: Print, other: Print, distance: int) -> None:
    assert one.is_like(one, 0) == any(one)
    assert one.is_like(other, distance) == other.is_like(one, distance)
    assert other.is_like(one, distance + 1) or not one.is_like(other, distance)


@given(st.lists(st.integers(0, 62), min_size=1, max_size=7, unique=True))
def test_a_simhash_may_differ_in_as_many_bits_as_the_distance(bits: list[int]) -> None:
    other = Print(2, simhash=2**63 ^ sum(1 << bit for bit in bits))
    assert Print(1, simhash=2**63).is_like(other, len(bits))
    assert not Print(1, simhash=2**63).is_like(other, len(bits) - 1)


def test_unknown_parts_are_like_nothing() -> None:
    assert not Print(0).is_like(Print(0), 64)
    assert not Print(1, simhash=0).is_like(Print(2, simhash=1), 64)


@given(answers, prints)
def test_only_an_answer_with_a_page_makes_errors(answer: UnknownPathAnswer, page: Print) -> None:
    assert answer.is_page or not answer.is_error(page, 64)
    if answer.page is not None:
        assert answer.is_error(answer.page, 0) == any(answer.page)


@cases(("alike", "verdict"), [(0, False), (10, False), (11, True), (20, True)])
def test_a_host_is_a_shell_if_more_than_half_of_its_pages_look_alike(alike: int, verdict: bool) -> None:
    pages = [Print(1)] * alike + [Print(n) for n in range(2, 22 - alike)]
    assert is_shell(pages, Print(1), 3) == verdict


@cases(
    ("url", "folder"),
    [
        ("https://a.test/b/c.html?d=/e", "https://a.test/b/"),
        ("http://a.test:81/b/", "http://a.test:81/b/"),
        ("http://a.test/", "http://a.test/"),
        ("http://a.test", "http://a.test/"),
    ],
)
def test_the_impossible_path_is_in_the_folder_of_the_page(url: str, folder: str) -> None:
    assert impossible(url, WORD) == folder + WORD


def test_the_start_page_is_no_error() -> None:
    assert not may_be_error("http://a.test/")
    assert not may_be_error("http://a.test/?x=1")
    assert may_be_error("http://a.test/index.html")


@given(
    st.from_regex(r"/[a-z]{3,9}/[a-z]{3,9}", fullmatch=True), st.sampled_from(["{url}", "{path}", "{name}"])
)
def test_a_short_text_counts_without_the_address(path: str, mention: str) -> None:
    def of(path: str) -> int:
        url = f"http://a.test{path}"
        names = {"url": url, "path": urlsplit(url).path, "name": path.rpartition("/")[2]}
        return text_print(f"404: {mention.format(**names)} 404", url)

    assert of(path) == of("/0/1x") == text_print("404: \n 404", "http://a.test/")
    assert text_print(path, f"http://a.test{path}") == 0
