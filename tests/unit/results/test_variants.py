"""A link leads to the URL that the crawl fetched in another form."""

from __future__ import annotations

from tests.cases import cases
from webcrawl.results.variants import Variants
from webcrawl.urls.canonical import Canonicalizer

HOST = "https://a.example"


def simplest(url: str) -> str:
    """Rewrites as the DUST rules www. and index.html."""
    return url.replace("https://www.", "https://").removesuffix("index.html")


@cases(
    ("fetched", "link"),
    [
        ("/p?utm_source=x", "/p"),
        ("/p", "/p?utm_source=x"),
        ("/p?utm_source=x", "/p?utm_campaign=y"),
        ("/p?b=1&a=2", "/p?a=2&b=1"),
        ("/%c3%a9", "/%C3%A9"),
        ("/%C3%A9", "/%c3%a9"),
        ("/p;jsessionid=1", "/p;jsessionid=2"),
        ("/p?", "/p"),
        ("/p", "/p?"),
        ("/p%7Cq", "/p|q"),
        ("/d/?gclid=1", "/d/index.html"),
        ("/p?b=1&a=2", "https://www.a.example/p?a=2&b=1"),
    ],
)
def test_forms_of_a_link(fetched: str, link: str) -> None:
    variants = Variants(Canonicalizer(), simplest)
    variants.add([HOST + fetched])
    forms = list(variants.of(link if "://" in link else HOST + link))
    assert HOST + fetched in forms


def test_a_link_is_itself_first_and_other_pages_are_no_form() -> None:
    variants = Variants(Canonicalizer())
    variants.add([f"{HOST}/p?utm_source=x", f"{HOST}/p?page=2&utm_source=x"])
    assert next(variants.of(f"{HOST}/p")) == f"{HOST}/p"
    assert set(variants.of(f"{HOST}/p")) == {f"{HOST}/p", f"{HOST}/p?utm_source=x"}
    assert set(variants.of(f"{HOST}/p?page=3")) == {f"{HOST}/p?page=3"}
