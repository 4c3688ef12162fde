"""URLs that one program makes have one pattern."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.policies.url_patterns import family, url_pattern

words = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12)
numbers = st.integers(0, 10**12).map(str)
values = st.text("abcdefghij0123456789-%.", max_size=20)


@cases(
    ("path", "pattern"),
    [
        ("/", "/"),
        ("/about/contact.html", "/about/contact.html"),
        ("/thread/1234?page=2", "/thread/#?page"),
        ("/2026/11/23/why-it-rains-again", "/#+/w"),
        ("/s/9f86d081884c7d65/a.html", "/s/~/a.html"),
        ("/index.php;jsessionid=ABCDEF0123456789XYZ", "/index.php;jsessionid=~"),
        ("/a/a/a/b", "/+"),
        ("/a/b/c/a/d?page=2", "/+?page"),
        ("/vol1/no2/vol3/no4", "/vol#/no#/vol#/no#"),
        ("/2026/11/9f86d081884c7d65/1f86d081884c7d65", "/#+/~+"),
        ("/shop?size=3&color=red&size=4", "/shop?color&size"),
        ("/shop?", "/shop"),
        ("/shop/[x]?f[12]=a|b&g=1", "/shop/[x]?f[#]&g"),
        ("/shop/%5Bx%5D?f%5B12%5D=a%7Cb&g=1", "/shop/[x]?f[#]&g"),
    ],
)
def test_the_table_of_patterns(path: str, pattern: str) -> None:
    assert url_pattern(path) == pattern


@given(words, numbers, numbers)
def test_numbers_do_not_matter(word: str, one: str, other: str) -> None:
    assert url_pattern(f"/{word}/{one}.html") == url_pattern(f"/{word}/{other}.html")


@given(st.dictionaries(words, values, min_size=1, max_size=8), st.data())
def test_neither_values_nor_the_order_of_parameters_matter(
    names: dict[str, str], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations([*names]))
    others = "&".join(f"{name}={data.draw(values)}" for name in shuffled)
    usual = "&".join(f"{name}={value}" for name, value in names.items())
    assert url_pattern(f"/list?{usual}") == url_pattern(f"/list?{others}")


@given(words, st.integers(2, 40), st.integers(2, 40))
def test_the_number_of_repetitions_does_not_matter(word: str, one: int, other: int) -> None:
    assert url_pattern(f"/{word}1" * one) == url_pattern(f"/{word}2" * one)
    assert url_pattern("/2" * one) == url_pattern("/1" * other) == "/#+"


@given(st.lists(words.filter(lambda name: name != "w"), min_size=2, max_size=12), st.data())
def test_paths_in_which_a_name_occurs_twice_have_one_pattern(names: list[str], data: st.DataObject) -> None:
    again = data.draw(st.sampled_from(names))
    found = {url_pattern("/" + "/".join([*names, again])), url_pattern("/" + "/".join([again, *names, ""]))}
    assert found == {"/+"}


@given(st.text(max_size=2_000))
def test_any_text_has_a_short_pattern_and_a_family(text: str) -> None:
    pattern = url_pattern("/" + text)
    assert len(pattern) <= 2 * 512 + 20_000
    assert family(pattern).endswith("*")
    assert family(family(pattern)).endswith("*")
