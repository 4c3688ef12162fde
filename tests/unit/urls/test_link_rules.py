"""Rules for the links of pages."""

from __future__ import annotations

import re

from hypothesis import given, strategies as st

from webcrawl.config.rules import LinkRule
from webcrawl.urls.scope import LinkRules

NEWS = "http://news.example"
CHANNELS = (f"{NEWS}/[a-z]*/", f"{NEWS}/[0-9]*/[0-9]*/[0-9]*/.*.html")


def test_links_of_channels_are_articles() -> None:
    rules = LinkRules.from_config({"LINK_RULES": [CHANNELS, ("/about$", None)]})
    links = rules.on(f"{NEWS}/world/")
    assert links is not None
    assert links.match(f"{NEWS}/26/1123/09/ABC.html") and not links.match(f"{NEWS}/sport/")
    assert rules.on(f"{NEWS}/26/1123/09/ABC.html") is None
    nothing = rules.on(f"{NEWS}/about")
    assert nothing is not None and not nothing.match(f"{NEWS}/26/1123/09/ABC.html")


def test_without_rules_every_link_is_followed() -> None:
    assert LinkRules.from_config({}).on(f"{NEWS}/") is None


PATTERNS = st.sampled_from(["a", "b", "ab+", "^c", "d$", "/e/", "[ab]c", "x|y"])


@given(
    st.lists(st.tuples(PATTERNS, st.none() | PATTERNS), max_size=50),
    st.text("abcdexy/", max_size=8),
    st.text("abcdexy/", max_size=8),
)
def test_a_link_must_match_one_of_the_rules_of_its_page(
    pairs: list[tuple[str, str | None]], page: str, link: str
) -> None:
    rules = LinkRules([LinkRule(*pair) for pair in pairs])
    applying = [links for one, links in pairs if re.search(one, page)]
    expected = not applying or any(links is not None and re.search(links, link) for links in applying)
    links = rules.on(page)
    assert (links is None or links.match(link)) == expected
    assert len(rules.matching(page)) == len(applying)
