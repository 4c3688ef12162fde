"""The terms of a weight that apply the weights of `scrapy mine`; docs/guide/mining.md explains them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from webcrawl.config import read
from webcrawl.policies.learned_value import features
from webcrawl.policies.mined import Mined
from webcrawl.policies.priorities import Prospect, Term
from webcrawl.policies.url_patterns import url_pattern


class MinedTerm(Term):
    """A term with weights that `use` replaces while the crawl runs; weighs nothing until then. Only with MINED."""

    of_requests = False
    mined: Mined | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self | None:
        return cls() if read(config, "MINED") else None

    def use(self, mined: Mined) -> None:
        """Applies the weights that were read last."""
        self.mined = mined


class LearnedValue(MinedTerm):
    """The predicted value of the URL: two levels for each standard deviation, from -3 to 3."""

    why = "Pages like those that were worth most come first."
    needs_text = True

    def weight(self, prospect: Prospect) -> float:
        if self.mined is None or (value := self.mined.value) is None:
            return 0.0
        path = prospect.path
        host = prospect.url.removesuffix(path)
        return value.levels(features(host, path, prospect.depth, prospect.source, prospect.text))


class Uniqueness(MinedTerm):
    """The uniqueness of the links on pages of its pattern: 0 from 1/4 on, each factor of 1/16 costs 1, up to 2."""

    why = "Pages that link to the same URLs again and again lead to little that is new."

    def weight(self, prospect: Prospect) -> float:
        if self.mined is None or not (patterns := self.mined.patterns):
            return 0.0
        path = prospect.path
        return patterns.get(prospect.url.removesuffix(path) + url_pattern(path), 0.0)
