"""The evidence for a rule that takes a URL to a simpler URL with the same page, and the use of such rules.

See `webcrawl.policies.dust`.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from webcrawl.policies.url_patterns import url_pattern
from webcrawl.policies.url_variants import (
    ANYWHERE,
    HOST_RULES,
    INDEX,
    SLASH,
    Reduced,
    parameter_rule,
    parameters,
    simpler_host,
    without_ending,
    without_parameters,
)

LEAST_PAIRS, LEAST_TEXTS = 8, 5
"""Pairs of URLs with the same page that a rule needs, and different texts among these pairs."""
LEAST_PLAIN = 3
"""Pairs with the simpler URL itself that a rule needs. Until then, the simpler URL may not work, so only one in PROBES
URLs is rewritten."""
PROBES = 8
ONE_IN = 50
"""At most one in this many pairs may differ: pages change between two fetches."""
WINDOW = 128
"""After this many pairs, the numbers are halved, so that the last pairs decide."""
MANY_VALUES = 4
"""A rule whose pairs have fewer values than this drops a parameter only with these values."""
MANY_PATTERNS = 3
"""A parameter that changes nothing in this many patterns, and matters in no pattern, is dropped from all paths.

One pattern needs all the evidence; LEAST_PAIRS pairs suffice for the others, because some have a single page."""
_FAR = 8
"""Texts whose SimHashes differ in more bits are different."""
_VALUE_BITS = 32

State = Literal["used", "tried", "off", "not used"]


@dataclass(slots=True)
class Evidence:
    """The evidence of pairs of pages for and against a rule.

    same, other   numbers of pairs of URLs that differ by the rule, with the same page and with different pages
    plain         number of pairs in `same` with the simpler URL itself, and of redirects from it, up to LEAST_PLAIN
    values        a bitmap of the values of the parameter in the pairs in `same`
    texts         SimHashes of pages in the pairs in `same`, far apart from each other, up to LEAST_TEXTS
    """

    same: int = 0
    other: int = 0
    plain: int = 0
    values: int = 0
    texts: list[int] = field(default_factory=list)

    def add(self, *, same: bool, text: int = 0, plain: bool = False, values: int = 0) -> None:
        """Counts a pair; `text` is the SimHash of its page, 0 if unknown."""
        if not same:
            self.other += 1
        else:
            self.same += 1
            self.plain = min(self.plain + plain, LEAST_PLAIN)
            self.values |= values
            self._add_text(text)
        if self.same + self.other >= WINDOW:
            self.same, self.other = self.same // 2, self.other // 2

    def merge(self, another: Evidence) -> None:
        """Takes the larger of each number, because both may count the same pairs."""
        self.same, self.other = max(self.same, another.same), max(self.other, another.other)
        self.plain, self.values = max(self.plain, another.plain), self.values | another.values
        for text in another.texts:
            self._add_text(text)

    @property
    def holds(self) -> bool:
        """Whether there is enough evidence for the rule."""
        return self.is_likely and len(self.texts) >= LEAST_TEXTS

    @property
    def opposes(self) -> bool:
        """Whether there is evidence against the rule; one pair may be a page that changed."""
        return self.other > 1 and self.other * ONE_IN > self.same

    @property
    def judgement(self) -> tuple[bool, bool, int, int, int]:
        """The values that decide how the rule is used."""
        few = self.values if self.values.bit_count() < MANY_VALUES else -1
        return self.is_likely, self.opposes, len(self.texts), self.plain, few

    @property
    def is_likely(self) -> bool:
        """Whether there are enough pairs, though perhaps of a single page."""
        return self.same >= LEAST_PAIRS and self.other * ONE_IN <= self.same

    def _add_text(self, text: int) -> None:
        if text and len(self.texts) < LEAST_TEXTS and is_far(text, self.texts):
            self.texts.append(text)


def is_far(text: int, others: Iterable[int]) -> bool:
    """Whether a text is different from all others, by their SimHashes."""
    return all((text ^ other).bit_count() > _FAR for other in others)


def value_number(value: str) -> int:
    """Returns the bit of a value in a bitmap."""
    return zlib.crc32(value.encode(errors="replace")) % _VALUE_BITS


class Drop(NamedTuple):
    """Drops a parameter with the values of a bitmap. `works`: the simpler URLs are known to work."""

    values: int
    works: bool

    def applies(self, value: str, *, probe: bool) -> bool:
        """Whether the parameter is dropped with a value. `probe`: also if the simpler URL may not work."""
        known = self.values.bit_count() >= MANY_VALUES or self.values >> value_number(value) & 1
        return bool(known) and (self.works or probe)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a site that are in use.

    parameters   name -> pattern or ANYWHERE -> its `Drop`; None if even a rule for all paths does not apply there
    others       the other rules
    """

    parameters: Mapping[str, Mapping[str, Drop | None]] = field(default_factory=dict)
    others: Collection[str] = ()

    @classmethod
    def of(cls, evidence: Mapping[str, Evidence], off: Collection[str] = ()) -> RuleSet:
        """Returns the rules for which there is enough evidence, without the rules that are switched off."""
        others: set[str] = set()
        by_name: dict[str, dict[str, Evidence]] = {}
        for rule, known in evidence.items():
            pattern, mark, name = rule.partition("?")
            if mark:
                by_name.setdefault(name, {})[pattern] = known
            elif known.holds and rule not in off:
                others.add(rule)
        chosen = {name: _drops(name, patterns, off) for name, patterns in by_name.items()}
        return cls({name: drops for name, drops in chosen.items() if any(drops.values())}, others)

    def __bool__(self) -> bool:
        return bool(self.parameters or self.others)

    def apply(self, host: str, path: str, *, probe: bool = False, skip: str = "") -> Reduced:
        """Applies all rules but `skip` to a URL. `probe`: also rules whose simpler URLs may not work."""
        rules: list[str] = []
        if self.parameters and "?" in path:
            path = self._without_parameters(path, rules, probe, skip)
        if self.others:
            for rule in (INDEX, SLASH) if "?" not in path else ():
                if rule in self.others and rule != skip and (shorter := without_ending(rule, path)):
                    path = shorter
                    rules.append(rule)
            for rule in HOST_RULES:
                if rule in self.others and rule != skip and (simpler := simpler_host(rule, host)):
                    host = simpler
                    rules.append(rule)
        return Reduced(host, path, rules)

    def _without_parameters(self, path: str, rules: list[str], probe: bool, skip: str) -> str:
        """Returns path and query without parameters that change nothing; adds their rules to `rules`."""
        bare, _, query = path.partition("?")
        pattern, names = "", set[str]()
        for name, value in parameters(query):
            patterns = self.parameters.get(name)
            if patterns is None:
                continue
            pattern = pattern or url_pattern(bare)
            rule = parameter_rule(pattern, name)
            known = patterns.get(pattern, patterns.get(ANYWHERE))
            if known is not None and rule != skip and known.applies(value, probe=probe):
                names.add(name)
                rules.append(rule)
        return without_parameters(path, names) if names else path


def _drops(name: str, patterns: Mapping[str, Evidence], off: Collection[str]) -> dict[str, Drop | None]:
    """Returns where and how a parameter is dropped, by the evidence in each pattern."""
    if parameter_rule(ANYWHERE, name) in off:
        return {}
    holding = {pattern: known for pattern, known in patterns.items() if known.holds}
    works = sum(known.plain for known in holding.values()) >= LEAST_PLAIN
    chosen: dict[str, Drop | None] = {
        pattern: Drop(known.values, works) for pattern, known in holding.items()
    }
    if holding and _is_general(patterns.values()):
        values = 0
        for known in holding.values():
            values |= known.values
        chosen[ANYWHERE] = Drop(values, works)
    return chosen | {pattern: None for pattern in patterns if parameter_rule(pattern, name) in off}


def _is_general(patterns: Iterable[Evidence]) -> bool:
    """Whether a parameter changes nothing in MANY_PATTERNS patterns with their own texts, and matters in no pattern."""
    texts: list[int] = []
    likely = 0
    for known in patterns:
        if known.opposes:
            return False
        own = [text for text in known.texts if is_far(text, texts)]
        likely += bool(own) and known.is_likely
        texts += own
    return likely >= MANY_PATTERNS
