"""The setting LINK_RULES: selects the links to follow by the page on which they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Self

from webcrawl.config import read
from webcrawl.config.kinds import expression
from webcrawl.config.rules import LinkRule
from webcrawl.urls.patterns import Patterns

_CACHED = 1 << 10


class LinkRules:
    """Pairs of expressions: on a page whose URL matches the first, only links that match the second are followed.

    If several rules match a page, a link must match the second expression of one rule. On other pages, all links are
    followed.
    """

    def __init__(self, rules: Sequence[LinkRule]) -> None:
        self._rules = tuple(rules)
        self._pages = Patterns(expression(rule.page) for rule in self._rules)
        self._links = lru_cache(maxsize=_CACHED)(self._links_of)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Reads LINK_RULES."""
        return cls(read(config, "LINK_RULES"))

    def on(self, page: str) -> Patterns | None:
        """Returns the expressions for links on a page; a link must match one. None if all links are followed."""
        if not self._rules:
            return None
        indices = self._pages.matching(page)
        return self._links(tuple(indices)) if indices else None

    def matching(self, page: str) -> list[LinkRule]:
        """Returns the rules that match a page."""
        return [self._rules[index] for index in self._pages.matching(page)]

    def _links_of(self, indices: tuple[int, ...]) -> Patterns:
        texts = (self._rules[index].links for index in indices)
        return Patterns(expression(text) for text in texts if text is not None)
