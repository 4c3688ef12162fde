"""Different URLs with similar text (DUST): learns which parts of its URLs change nothing on a site.

Fetched pages whose URLs differ by one rule (`webcrawl.policies.url_variants`) are compared as they come, by a bounded
table of the last URLs' pages. A rule is used after LEAST_PAIRS equal pairs with LEAST_TEXTS different texts, unless
more than one in ONE_IN pairs differs. So pages that are all alike, such as a login form or the pages beyond the end of
a list, teach nothing, and a list with different pages keeps its parameter. One in TRIALS pages is fetched by a URL
that the rules would change, so a rule that has become wrong is dropped.

The idea and the validation by fetching a few pages are from Bar-Yossef, Keidar, Schonfeld, "Do Not Crawl in the DUST:
Different URLs with Similar Text" (WWW 2007); rules for one pattern of paths are from Koppula et al., "Learning URL
patterns for webpage de-duplication" (WSDM 2010). Both mine logs; here the crawl itself gives the pairs.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import msgpack
import xxhash

from webcrawl.policies.dust_rules import LEAST_PLAIN, PROBES, Evidence, RuleSet, State, value_number
from webcrawl.policies.page_sketches import ERROR, Sketch
from webcrawl.policies.url_variants import (
    ANYWHERE,
    HTTP,
    WWW,
    Reduced,
    Variant,
    kind_of,
    parameter_rule,
    variants,
)

MOST_RULES = 64
"""The most rules of a site with evidence."""
MOST_SKETCHES = 256
"""The most remembered URLs of a site; a page takes one entry, and one more for each of its parameters."""
PACKED_SKETCHES = 64
"""The most URLs in the result of `pack`, the last ones; each takes 40 to 70 bytes."""
TRIALS = 64
"""One in this many pages of a site with rules may be fetched by a URL that a rule would change."""
_WORTH_KEEPING = 2
_SEEN = struct.Struct("<IBBIQQI")


@dataclass(slots=True)
class SiteDust:
    """The DUST rules of a site, whose hosts differ only by "www." and http, and one worker's knowledge of its pages.

    `evidence`: rule -> the evidence for and against it. `off`: rules that an operator has switched off.
    """

    evidence: dict[str, Evidence] = field(default_factory=dict)
    off: frozenset[str] = frozenset()
    pages: int = 0
    trials: int = 0
    _sketches: dict[int, bytes] = field(default_factory=dict)
    """Hash of a path -> the page seen there; hash of a path that a rule made -> the page seen at the longer path."""
    _rules: RuleSet | None = None

    @property
    def rules(self) -> RuleSet:
        """The rules in use."""
        if self._rules is None:
            self._rules = RuleSet.of(self.evidence, self.off)
        return self._rules

    def switch_off(self, rules: Collection[str]) -> bool:
        """Switches off these rules, and all others on; returns whether anything changes."""
        changed = self.off != frozenset(rules)
        self.off = frozenset(rules)
        self._rules = None if changed else self._rules
        return changed

    def rewrite(self, host: str, path: str, *, may_try: bool = False) -> tuple[Reduced, bool] | None:
        """Returns the URL that the rules make of a URL, and whether it is a trial; None if the rules change nothing.

        In a trial, one rule is left out. With `may_try`, there is one trial per TRIALS pages.
        """
        probe = zlib.crc32(f"{host}{path}".encode(errors="replace")) % PROBES == 0
        reduced = self.rules.apply(host, path, probe=probe)
        if not reduced.rules:
            return None
        due = self.pages // TRIALS
        if not may_try or self.trials >= due:
            return reduced, False
        self.trials = due
        left_out = reduced.rules[due % len(reduced.rules)]
        return self.rules.apply(host, path, probe=probe, skip=left_out), True

    def add(self, host: str, path: str, sketch: Sketch, distance: int) -> bool:
        """Compares a page with pages of similar URLs; returns whether other rules are used now.

        `distance`: the number of bits in which SimHashes may differ while their texts count as the same.
        """
        self.pages += 1
        reduced = self.rules.apply(host, path)
        mine = _Seen(_hash(host + path) & 0xFFFFFFFF, kind_of(host), sketch)
        if not reduced.rules:
            self._add_simple(path, mine, distance)
            if sketch != ERROR:  # parameters may cause an error
                for variant in variants(path):
                    self._compare(variant, mine, distance)
        elif len(reduced.rules) == 1 and sketch != ERROR:
            mine = mine._replace(kind=kind_of(reduced.host))
            self._compare(Variant(reduced.rules[0], reduced.path), mine, distance)
        return self._rules is None

    def add_redirect(self, path: str, target: str) -> bool:
        """Counts a redirect from a simpler URL as a sign that this URL works; returns whether other rules are used now.

        For example, a host that insists on a session redirects from a URL without a session to a URL with a session.
        """
        for variant in variants(target):
            known = self.evidence.get(variant.rule)
            if variant.path == path and known is not None:
                before = known.judgement
                known.plain = min(known.plain + 1, LEAST_PLAIN)
                if known.judgement != before:
                    self._rules = None
        return self._rules is None

    def _add_simple(self, path: str, mine: _Seen, distance: int) -> None:
        """Compares a page with the page of a longer URL and with the page of another host, and remembers the page."""
        longer_key = _hash("", path)
        longer = self._seen(longer_key)
        if longer is not None and longer.kind == mine.kind:
            self._judge(
                longer.rule, mine.sketch, longer.sketch, distance, plain=True, values=1 << longer.value
            )
            del self._sketches[longer_key]
        key = _hash(path)
        seen = self._seen(key)
        if seen is not None and seen.kind != mine.kind:
            rule = {1: WWW, 2: HTTP}.get(seen.kind ^ mine.kind)
            plain, other = sorted((seen, mine), key=lambda page: page.kind)
            if rule is not None and other.sketch != ERROR:
                self._judge(rule, plain.sketch, other.sketch, distance, plain=True)
            mine = plain
        self._remember(key, mine)

    def _compare(self, variant: Variant, mine: _Seen, distance: int) -> None:
        """Compares a page with the page of the simpler URL of a rule, or of another URL with the same simpler URL."""
        value = value_number(variant.value)
        plain = self._seen(_hash(variant.path))
        if plain is not None and plain.kind == mine.kind:
            self._judge(variant.rule, plain.sketch, mine.sketch, distance, plain=True, values=1 << value)
            return
        key = _hash("", variant.path)
        seen = self._seen(key)
        is_alike = seen is not None and (seen.kind, seen.rule) == (mine.kind, variant.rule)
        # URLs with the same value differ in the order of their parameters, and say nothing about the value
        if seen is not None and is_alike and seen.variant != mine.variant and seen.value != value:
            self._judge(variant.rule, seen.sketch, mine.sketch, distance, values=1 << value)
        self._remember(key, mine._replace(value=value, rule=variant.rule))

    def _judge(
        self, rule: str, sketch: Sketch, other: Sketch, distance: int, *, plain: bool = False, values: int = 0
    ) -> None:
        """Counts a pair of pages for or against a rule."""
        known = self.evidence.get(rule)
        if known is None:
            known = self._add_rule(rule)
        before = known.judgement
        same = sketch.is_like(other, distance)
        known.add(same=same, text=other.text or sketch.text, plain=plain, values=values)
        if known.judgement != before:
            self._rules = None

    def _add_rule(self, rule: str) -> Evidence:
        if len(self.evidence) >= MOST_RULES:
            del self.evidence[min(self.evidence, key=self._weight)]
            self._rules = None
        return self.evidence.setdefault(rule, Evidence())

    def _weight(self, rule: str) -> tuple[bool, int]:
        known = self.evidence[rule]
        return known.holds, known.same + known.other

    def _seen(self, key: int) -> _Seen | None:
        packed = self._sketches.pop(key, None)
        if packed is None:
            return None
        self._sketches[key] = packed  # the key is now the last
        return _Seen.unpack(packed)

    def _remember(self, key: int, seen: _Seen) -> None:
        """Remembers the page of a URL, and forgets the URL that was compared longest ago."""
        sketches = self._sketches
        sketches.pop(key, None)
        if len(sketches) >= MOST_SKETCHES:
            del sketches[next(iter(sketches))]
        sketches[key] = seen.pack()

    @property
    def is_kept(self) -> bool:
        """Whether there is evidence that another worker should have."""
        return any(known.same >= _WORTH_KEEPING and not known.opposes for known in self.evidence.values())

    def pack(self) -> bytes:
        """Returns the evidence, some 70 bytes for each rule, and the pages of the last URLs."""
        rows = [
            [rule, known.same, known.other, known.plain, known.values, known.texts]
            for rule, known in self.evidence.items()
        ]
        sketches = list(self._sketches.items())[-PACKED_SKETCHES:]
        return bytes(msgpack.packb([self.pages, self.trials, rows, sketches]))

    @classmethod
    def unpack(cls, packed: bytes) -> SiteDust:
        """Reverses `pack`; an empty text gives rules without evidence."""
        if not packed:
            return cls()
        pages, trials, rows, sketches = msgpack.unpackb(packed)
        evidence = {rule: Evidence(*parts) for rule, *parts in rows}
        return cls(evidence, pages=pages, trials=trials, _sketches=dict(sketches))

    def merge(self, other: SiteDust) -> None:
        """Adds the evidence of another worker."""
        for rule, theirs in other.evidence.items():
            known = self.evidence.get(rule)
            if known is None:
                known = self._add_rule(rule)
            known.merge(theirs)
        self._sketches = dict([*other._sketches.items(), *self._sketches.items()][-MOST_SKETCHES:])
        self.pages, self.trials = max(self.pages, other.pages), max(self.trials, other.trials)
        self._rules = None

    def states(self) -> dict[str, State]:
        """Returns how each rule is used, the rules for all paths included."""
        rules = RuleSet.of(self.evidence)
        states: dict[str, State] = dict.fromkeys(self.evidence, "not used")
        states |= dict.fromkeys(rules.others, "used")
        for name, drops in rules.parameters.items():
            patterns = [rule.partition("?")[0] for rule in self.evidence if rule.endswith(f"?{name}")]
            everywhere = drops.get(ANYWHERE)
            for pattern in dict.fromkeys([*patterns, *drops]):
                if drop := drops.get(pattern, everywhere):
                    states[parameter_rule(pattern, name)] = "used" if drop.works else "tried"
        return states | dict.fromkeys(self.off, "off")


class _Seen(NamedTuple):
    """A fetched URL and its page.

    variant      32 bits of the hash of the URL
    kind         the result of `kind_of` for its host
    rule, value  the rule that made the simpler URL under which it is remembered, and the number of the dropped value
    """

    variant: int
    kind: int
    sketch: Sketch
    value: int = 0
    rule: str = ""

    def pack(self) -> bytes:
        return _SEEN.pack(self.variant, self.kind, self.value, *self.sketch) + self.rule.encode()

    @classmethod
    def unpack(cls, packed: bytes) -> _Seen:
        variant, kind, value, *sketch = _SEEN.unpack_from(packed)
        return cls(variant, kind, Sketch(*sketch), value, packed[_SEEN.size :].decode())


def _hash(*parts: str) -> int:
    return xxhash.xxh3_64_intdigest("\0".join(parts).encode(errors="replace"))
