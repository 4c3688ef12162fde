"""The Lua scripts in `webcrawl/engine/lua`: one file for each atomic step on the engine.

The header of a script names its keys, its arguments and the fields of its reply, and both sides use these names:

    header                     what the script finds before its first line

    -- KEYS
    --   P  the crawl's prefix
    --   H  hosts' prefix      local P, H = KEYS[1], KEYS[2]
    -- ARGV
    --   host
    --   #lease_ms             local host, lease_ms = ARGV[1], tonumber(ARGV[2])
    -- each url                local n_url, and local function url_at(i), which returns the columns of a row:
    --   index                 local index, verdict = url_at(i)
    --   verdict
    -- list entries            local entries = {...}
    -- reply                   the script returns {level, lengths}
    --   level
    --   lengths

In Python, arguments are packed by their names, and the fields of the reply are attributes:

    call = script_call("name", keys, host=host, lease_ms=ms, url={"index": indexes, "verdict": verdicts}, entries=[])
    (await engine.run(call)).level

"reply each" declares a list of rows with these fields. If a reply has fields, an empty reply is None in Python. Without
fields, a reply is returned unchanged. A key whose name ends in "..." stands for a list of any number of keys.

A script includes only the functions of `lua/common` that it uses, because each function costs time in every run.
"""

from __future__ import annotations

import hashlib
import re
from collections import namedtuple
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any, NamedTuple, TypeAlias

Argument: TypeAlias = str | bytes | int | float
Columns: TypeAlias = Mapping[str, Sequence[Argument]]
"""The rows of a group, as the values of each column."""

_SECTION = re.compile(r"-- (KEYS|ARGV|each \w+|list \w+|reply each|reply)\b")
_FIELDS = re.compile(r"--   (#?\w+(?:\.\.\.)?(?:, #?\w+)*)(?:  |$)")

_COMMON = (
    "entries",
    "conf",
    "credit",
    "records",
    "units",
    "seen_set",
    "cold_hosts",
    "sunk",
    "trust",
    "ready",
    "turns",
    "queues",
    "hosts",
    "plan",
    "leases",
    "changes",
    "clients",
)
"""The files of `lua/common`; each uses only functions of the files before it."""


class Call(NamedTuple):
    """One run of a script: its file name in `lua` without ".lua", its keys, and its arguments in order."""

    script: str
    keys: Sequence[str]
    arguments: Sequence[Argument]


def script_call(
    script: str, keys: Sequence[str], /, **arguments: Argument | Sequence[Argument] | Columns
) -> Call:
    """Returns the call of a script with these arguments; raises TypeError if its header has others."""
    return Call(script, keys, script_header(script).packed(keys, arguments))


@dataclass(frozen=True)
class ArgumentGroup:
    """Arguments that repeat: rows with columns ("each"), or values without ("list")."""

    name: str
    fields: tuple[str, ...]
    """The columns of a row; a "#" marks a number."""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(map(_name, self.fields))

    @cached_property
    def width(self) -> int:
        """Number of arguments of a row or a value."""
        return len(self.fields) or 1

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.columns)

    def flat(self, rows: Any) -> list[Argument]:
        """Returns the rows one after another; raises TypeError for unknown columns, ValueError for unequal lengths."""
        if not self.fields:
            return list(rows)
        if rows.keys() != self._names:
            raise TypeError(
                f"the columns of {self.name} are {', '.join(self.columns)}, not {', '.join(rows)}"
            )
        flat: list[Argument] = [""] * (self.width * len(rows[self.columns[0]]))
        for offset, column in enumerate(self.columns):
            flat[offset :: self.width] = rows[column]
        return flat

    def prelude(self, before: str, end: str) -> Iterator[str]:
        """Yields the Lua for the rows behind the argument number `before`, up to the argument number `end`."""
        if not self.fields:
            yield f"local {self.name} = {{unpack(ARGV, {before} + 1, {end})}}"
            return
        values = ", ".join(_value(field, f"at + {n}") for n, field in enumerate(self.fields, start=1))
        yield f"local n_{self.name} = ({end} - {before}) / {self.width}"
        yield f"local function {self.name}_at(i) local at = {before} + {self.width} * (i - 1) return {values} end"


@dataclass(frozen=True)
class Header:
    """The names in the header of a script."""

    script: str
    keys: tuple[str, ...]
    """A single name that ends in "..." stands for any number of keys."""
    fields: tuple[str, ...]
    """The arguments in front of the groups; a "#" marks a number."""
    groups: tuple[ArgumentGroup, ...]
    """If there are two groups, the number of rows precedes the rows of the first."""
    reply: tuple[str, ...]
    is_list: bool
    """Whether the reply is a list whose elements have the fields of `reply`."""

    @classmethod
    def parse(cls, script: str, text: str) -> Header:
        """Reads the comment at the head of a script; raises ValueError if a section is missing."""
        sections: dict[str, list[str]] = {}
        fields: list[str] = []
        for line in text.splitlines():
            if not line.startswith(("--", "#!")):
                break
            if section := _SECTION.match(line):
                fields = sections.setdefault(section[1], [])
            elif names := _FIELDS.match(line):
                fields += names[1].split(", ")
        is_list = "reply each" in sections
        reply = sections.pop("reply each" if is_list else "reply", None)
        if reply is None or not sections.keys() >= {"KEYS", "ARGV"}:
            raise ValueError(f"the header of {script}.lua must name KEYS, ARGV and reply")
        keys, arguments = tuple(sections.pop("KEYS")), tuple(sections.pop("ARGV"))
        groups = tuple(
            ArgumentGroup(name.partition(" ")[2], tuple(columns)) for name, columns in sections.items()
        )
        return cls(script, keys, arguments, groups, tuple(reply), is_list)

    @cached_property
    def single(self) -> tuple[str, ...]:
        """The names of the arguments in front of the groups."""
        return tuple(map(_name, self.fields))

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of all arguments and groups."""
        return (*self.single, *(group.name for group in self.groups))

    def packed(self, keys: Sequence[str], arguments: Mapping[str, Any]) -> list[Argument]:
        """Returns the arguments in the order of the header; raises TypeError if the names differ."""
        is_complete = len(arguments) == self._size and (len(keys) == len(self.keys) or self._any_keys)
        if not is_complete:
            raise self._mismatch(keys, arguments)
        try:
            packed: list[Argument] = [arguments[name] for name in self.single]
            rows = [group.flat(arguments[group.name]) for group in self.groups]
        except KeyError as error:
            raise self._mismatch(keys, arguments) from error
        for group, flat in zip(self.groups, rows, strict=True):
            if group is not self.groups[-1]:
                packed.append(len(flat) // group.width)
            packed += flat
        return packed

    def unpacked(self, reply: Any) -> Any:
        """Returns a reply with the names of its fields; None for an empty reply."""
        if not self.reply:
            return reply
        if self.is_list:
            return [self._record(*fields) if fields else None for fields in reply]
        return self._record(*reply) if reply else None

    def prelude(self) -> str:
        """Returns the Lua that gives keys and arguments their names."""
        values = ", ".join(f"KEYS[{n}]" for n, _ in enumerate(self.keys, start=1))
        lines = [f"local {', '.join(self.keys)} = {values}"]
        if self._any_keys:
            lines = [f"local {self.keys[0].removesuffix('...')} = KEYS"]
        if self.fields:
            values = ", ".join(_value(field, str(n)) for n, field in enumerate(self.fields, start=1))
            lines.append(f"local {', '.join(self.single)} = {values}")
        if self.groups:
            lines.append("local ARGV = ARGV")  # a global name takes longer
        before, end = str(len(self.fields)), "#ARGV"
        for group in self.groups:
            if group is not self.groups[-1]:
                before = f"{len(self.fields) + 1}"
                end = f"end_{group.name}"
                lines.append(f"local {end} = {before} + {group.width} * ARGV[{before}]")
            lines += group.prelude(before, end)
            before, end = end, "#ARGV"
        return "\n".join(lines)

    @cached_property
    def _any_keys(self) -> bool:
        return self.keys[0].endswith("...")

    @cached_property
    def _size(self) -> int:
        return len(self.arguments)

    @cached_property
    def _record(self) -> Any:
        return namedtuple(f"{self.script}_reply", self.reply)

    def _mismatch(self, keys: Sequence[str], arguments: Mapping[str, Any]) -> TypeError:
        return TypeError(
            f"{self.script}.lua has {len(self.keys)} keys and the arguments {', '.join(self.arguments)}; it was called "
            f"with {len(keys)} keys and {', '.join(arguments)}"
        )


def _name(field: str) -> str:
    return field.removeprefix("#")


def _value(field: str, at: str) -> str:
    return f"tonumber(ARGV[{at}])" if field.startswith("#") else f"ARGV[{at}]"


@cache
def script_header(name: str) -> Header:
    """Returns the header of a script."""
    return Header.parse(name, _read(name))


@cache
def script_source(name: str) -> tuple[str, str]:
    """Returns (SHA-1, text) of a script as the server gets it.

    A script that begins with `#!lua flags=allow-oom` frees memory or needs little, so a full server runs it too.
    """
    first, end, rest = _read(name).partition("\n")
    flags, own = (first + end, rest) if first.startswith("#!") else ("", first + end + rest)
    text = flags + _with_dependencies(f"{script_header(name).prelude()}\n{own}")
    return hashlib.sha1(text.encode()).hexdigest(), text


def _read(name: str) -> str:
    # by importlib, because a deployed egg is imported zipped
    return (resources.files("webcrawl.engine") / "lua" / f"{name}.lua").read_text()


class _Block(NamedTuple):
    """Adjacent lines of `lua/common`: the names that they define, and all words in them."""

    text: str
    names: frozenset[str]
    words: frozenset[str]


@cache
def _common_blocks() -> tuple[_Block, ...]:
    """Returns the blocks of all common files, the last one first."""
    blocks = []
    for text in re.split(r"\n\n(?=\S)", "\n\n".join(_read(f"common/{part}") for part in _COMMON)):
        groups = re.findall(r"^local (?:function )?(\w+(?:, \w+)*)", text, re.MULTILINE)
        names = frozenset(name for group in groups for name in group.split(", "))
        blocks.append(_Block(text, names, _words(text)))
    return tuple(reversed(blocks))


def _with_dependencies(script: str) -> str:
    """Puts the common functions that a script uses, directly or not, before it."""
    text, words = script, _words(script)
    for block in _common_blocks():
        if not words.isdisjoint(block.names):
            text, words = f"{block.text}\n{text}", words | block.words
    return text


def _words(script: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", re.sub(r"--.*", "", script)))
