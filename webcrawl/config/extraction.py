"""The setting EXTRACT: which fields are read of which pages, and of which types they are."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.config.kinds import Kind, expression
from webcrawl.config.libraries import optional
from webcrawl.errors import WrongEntry

SOURCES = ("css", "xpath", "jsonld", "microdata", "rdfa", "og", "meta")
"""What begins a selector, before a colon."""
TYPES = ("str", "int", "float", "date", "bool", "list")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_RULE_KEYS, _FIELD_KEYS = {"name", "match", "fields"}, {"select", "type", "optional"}
_LARGEST = 1_000_000


class FieldSelector(NamedTuple):
    """A source of SOURCES, and what it finds there, such as "css" and ".price"."""

    source: str
    path: str

    def __str__(self) -> str:
        return f"{self.source}:{self.path}"


class ExtractField(NamedTuple):
    """A field: its type, and the selectors of which the first with a value counts."""

    name: str
    type: str
    selectors: tuple[FieldSelector, ...]
    is_optional: bool = False


class ExtractRule(NamedTuple):
    """The fields of pages whose URL has a match of the regular expression `match`."""

    name: str
    match: str
    fields: tuple[ExtractField, ...]


class ExtractRules(Kind):
    """A rule, a list of rules, or the name of a YAML file with either."""

    type = "list"
    allowed = "a list of rules with `match` and `fields`, or the name of a YAML file with them"

    def parse(self, value: Any) -> list[Any]:
        if isinstance(value, str):
            value = _written(value.strip())
        entries = [value] if isinstance(value, Mapping) else list(value or ())
        extract_rules(entries)
        return entries


def extract_rules(entries: Sequence[Any]) -> list[ExtractRule]:
    """Returns the rules of the setting; raises WrongEntry, which names the rule."""
    rules = [_rule(number, entry) for number, entry in enumerate(entries, 1)]
    _check_types(rules)
    return rules


def field_types(rules: Sequence[ExtractRule]) -> dict[str, str]:
    """Returns the types of the fields of all rules by name."""
    return {field.name: field.type for rule in rules for field in rule.fields}


def _written(text: str) -> Any:
    """Returns the value of JSON text, or of the file that it names."""
    if not text:
        return []
    if text[0] in "[{":
        return json.loads(text)
    path = Path(text.removeprefix("@"))
    yaml: Any = optional("EXTRACT", "PyYAML", "jobs", "yaml")
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)  # no more: it may be a device
        if len(content) > _LARGEST:
            raise WrongEntry(f"{path} has more than {_LARGEST:,} bytes")
        return yaml.safe_load(content.decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError, RecursionError, yaml.YAMLError) as error:
        raise WrongEntry(f"{path} cannot be read: {' '.join(str(error).split())}") from None


def _rule(number: int, entry: Any) -> ExtractRule:
    where = f"rule {number}"
    if not isinstance(entry, Mapping):
        raise WrongEntry(f"{where}: {entry!r} is no dict with `match` and `fields`")
    _check_keys(where, entry, _RULE_KEYS, ("match", "fields"))
    name = entry.get("name", str(number))
    if not isinstance(name, str) or not name:
        raise WrongEntry(f"{where}: name must be text, not {name!r}")
    where = f"rule {name!r}"
    try:
        match = expression(entry["match"]).pattern
    except (re.error, TypeError) as error:
        raise WrongEntry(f"{where}: {entry['match']!r} is not a regular expression: {error}") from None
    if not isinstance(entry["fields"], Mapping) or not entry["fields"]:
        raise WrongEntry(f"{where}: fields must be a dict from names to selectors")
    fields = tuple(_field(where, field, about) for field, about in entry["fields"].items())
    return ExtractRule(name, match, fields)


def _field(where: str, name: Any, about: Any) -> ExtractField:
    where = f"{where}, field {name!r}"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise WrongEntry(f"{where}: a name has only letters without accents, digits and _")
    about = about if isinstance(about, Mapping) else {"select": about}
    _check_keys(where, about, _FIELD_KEYS, ("select",))
    kind, optional_field = about.get("type", "str"), about.get("optional", False)
    if kind not in TYPES:
        raise WrongEntry(f"{where}: type must be {', '.join(TYPES[:-1])} or {TYPES[-1]}, not {kind!r}")
    if not isinstance(optional_field, bool):
        raise WrongEntry(f"{where}: optional must be True or False, not {optional_field!r}")
    words = [about["select"]] if isinstance(about["select"], str) else about["select"]
    if not isinstance(words, list | tuple) or not words:
        raise WrongEntry(f"{where}: {about['select']!r} is neither a selector nor a list of selectors")
    return ExtractField(name, kind, tuple(_selector(where, word) for word in words), optional_field)


def _selector(where: str, word: Any) -> FieldSelector:
    source, colon, path = word.partition(":") if isinstance(word, str) else ("", "", "")
    if not colon or source not in SOURCES or not path.strip():
        sources = ", ".join(f"{name}:" for name in SOURCES)
        raise WrongEntry(f"{where}: {word!r} is no selector; it begins with one of {sources}")
    return FieldSelector(source, path.strip())


def _check_keys(where: str, entry: Mapping[Any, Any], known: set[str], needed: Sequence[str]) -> None:
    if unknown := [key for key in entry if key not in known]:
        raise WrongEntry(f"{where}: {unknown[0]!r} is none of {', '.join(sorted(known))}")
    for key in needed:
        if key not in entry:
            raise WrongEntry(f"{where} has no {key!r}")


def _check_types(rules: Sequence[ExtractRule]) -> None:
    """Raises WrongEntry for two rules with one name, or a field that has another type in another rule."""
    types: dict[str, tuple[str, str]] = {}
    names = set[str]()
    for rule in rules:
        if rule.name in names:
            raise WrongEntry(f"two rules have the name {rule.name!r}")
        names.add(rule.name)
        for field in rule.fields:
            other, kind = types.setdefault(field.name, (rule.name, field.type))
            if kind != field.type:
                raise WrongEntry(
                    f"rule {rule.name!r}, field {field.name!r}: it has type {field.type} here, and {kind} in rule "
                    f"{other!r}"
                )
