"""POLITENESS_RULES: how the hosts that match a name are treated.

A rule matches by `example.org` (this name only), `*.example.org` (the names under it, but not itself) or `.example.org`
(both). Each field comes from the most specific rule that has it. A look-up walks over the labels of a name, so its cost
does not depend on the number of rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

from xxhash import xxh3_64_hexdigest

from webcrawl.config import PolitenessConfig, PolitenessRule, politeness_rule
from webcrawl.config.file_version import FileVersion, file_version
from webcrawl.config.politeness_rules import read_rules
from webcrawl.errors import ConfigurationError
from webcrawl.urls.canonical import hostname, is_address
from webcrawl.urls.domains import domain

_CACHED = 1 << 14
_FIELDS = PolitenessRule._fields[1:]


class HostRules:
    """The rules in force. `changed` and `use` read the rules of a file again."""

    path: str | None = None
    """The file of the rules, if there is a file."""

    def __init__(
        self,
        rules: Iterable[tuple[str, PolitenessRule]],
        config: PolitenessConfig,
        slots: Mapping[str, PolitenessConfig],
    ) -> None:
        """`rules`: the origin of each rule, and the rule. `slots`: host name -> its part of DOWNLOAD_SLOTS.

        Raises ConfigurationError if two rules match the same names, or a rule matches none.
        """
        self._config, self._slots = config, slots
        self._version: FileVersion | None = None
        self.use(_table(rules))

    @classmethod
    def from_setting(
        cls,
        value: list[dict[str, Any]] | str,
        config: PolitenessConfig,
        slots: Mapping[str, PolitenessConfig],
    ) -> Self:
        """Reads rules, or the file that is named after "@"; raises ConfigurationError."""
        if not isinstance(value, str):
            entries = ((f"entry {number}", entry) for number, entry in enumerate(value, 1))
            return cls(((where, politeness_rule(where, entry)) for where, entry in entries), config, slots)
        path = value[1:]
        seen = file_version(path)
        rules = cls(read_rules(path), config, slots)
        rules.path, rules._version = path, seen
        return rules

    def changed(self) -> dict[str, PolitenessRule] | None:
        """Reads the file if it has changed since the last call, and returns its rules for `use`.

        Returns None without a change. Raises ConfigurationError, once for each version of a wrong file.
        """
        if self.path is None or (now := file_version(self.path)) == self._version:
            return None
        self._version = now
        return _table(read_rules(self.path))

    def use(self, table: dict[str, PolitenessRule]) -> None:
        """Replaces the rules by what `changed` returned."""
        self._rules = table
        self.of = lru_cache(maxsize=_CACHED)(self._of)
        """The rule for a host name: each field comes from the most specific rule that has the field."""
        self.config_of = lru_cache(maxsize=_CACHED)(self._config_of)
        """The politeness of a host name."""

    def matching(self, name: str) -> Iterator[PolitenessRule]:
        """Yields the rules that match a host name, the most specific first."""
        name = name.removesuffix(".")
        suffixes = () if is_address(name) else _suffixes(name)
        for match in (name, *suffixes):
            if rule := self._rules.get(match):
                yield rule

    def max_pages(self, host: str) -> int | None:
        """The limit of pages that its rule sets for a host ("https://example.org"); None without a limit."""
        return self.of(hostname(host)).max_pages

    @property
    def limits_pages(self) -> str:
        """A digest of the rules that limit pages; empty if no rule does."""
        limits = sorted(f"{match} {rule.max_pages}" for match, rule in self._rules.items() if rule.max_pages)
        return xxh3_64_hexdigest("\n".join(limits).encode()) if limits else ""

    def _of(self, name: str) -> PolitenessRule:
        matching, fields, matches = list(self.matching(name)), {}, []
        for rule in matching:
            new = {
                field: value
                for field in _FIELDS
                if field not in fields and (value := getattr(rule, field)) is not None
            }
            fields.update(new)
            if new:
                matches.append(rule.match)
        return PolitenessRule(", ".join(matches), **fields)

    def _config_of(self, name: str) -> PolitenessConfig:
        config, rule = self._slots.get(name, self._config), self.of(name)
        if rule.delay is not None:
            config = config.with_delay(rule.delay)
        return replace(config, concurrency=rule.connections or config.concurrency)


@dataclass(frozen=True, slots=True)
class RobotsAgents:
    """The user agents whose rules in robots.txt are obeyed."""

    fixed: str | None
    """ROBOTSTXT_USER_AGENT, which holds for all hosts if it is set."""
    usual: str
    """USER_AGENT."""
    rules: HostRules | None

    def of(self, host: str) -> str:
        """The user agent for a host ("https://example.org")."""
        if self.fixed:
            return self.fixed
        return (self.rules and self.rules.of(hostname(host)).user_agent) or self.usual


def _suffixes(name: str) -> Iterator[str]:
    yield f".{name}"
    at = name.find(".")
    while at >= 0:
        suffix = name[at:]
        yield f"*{suffix}"
        yield suffix
        at = name.find(".", at + 1)


def _table(rules: Iterable[tuple[str, PolitenessRule]]) -> dict[str, PolitenessRule]:
    """Returns match -> rule; raises ConfigurationError."""
    table: dict[str, PolitenessRule] = {}
    for where, rule in rules:
        try:
            match = _normal(rule.match)
        except ValueError as error:
            raise ConfigurationError(f'POLITENESS_RULES, {where}: "match" {rule.match!r} {error}') from None
        if match in table:
            raise ConfigurationError(
                f'POLITENESS_RULES, {where}: "match" {rule.match!r} has a rule before this one'
            )
        table[match] = rule._replace(match=match)
    return table


def _normal(match: str) -> str:
    """Returns a match with its name as in normalized URLs; raises ValueError, which says what is wrong."""
    prefix = next((start for start in ("*.", ".") if match.startswith(start)), "")
    name = match.removeprefix(prefix)
    if "*" in name:
        raise ValueError("has a wildcard elsewhere than at its start: write *.example.org")
    name = domain(name)
    if prefix and is_address(name):
        raise ValueError("is an address, and there are no names under it")
    return prefix + name
