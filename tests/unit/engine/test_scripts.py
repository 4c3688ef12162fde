"""The names in the headers of the Lua scripts, which the scripts and their callers share."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cases import cases
from webcrawl.engine.scripts import Header, script_call, script_header, script_source

ROOT = Path(__file__).parent.parent.parent.parent
LUA = ROOT / "webcrawl" / "engine" / "lua"
SCRIPTS = sorted(path.stem for path in LUA.glob("*.lua"))
COMMON = "".join(path.read_text() for path in (LUA / "common").glob("*.lua"))

EXAMPLE = """#!lua flags=allow-oom
-- Does something.
-- KEYS
--   P         the crawl's prefix
-- ARGV
--   host, #most
-- each url    of the host
--   path
--   #level    a number
--             that is explained at length
-- list entries
-- reply each
--   level, urls
--
-- kind        what it is
return {}
"""


def own_text(script: str) -> str:
    """A script without its comments."""
    return re.sub(r"--.*", "", (LUA / f"{script}.lua").read_text())


def calls() -> Iterator[tuple[str, ast.Call]]:
    """The calls of scripts in the package and the examples, with the script of each."""
    for folder in ("webcrawl", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text()
            if "script_call(" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "script_call":
                    yield ast.literal_eval(node.args[0]), node


def test_a_header_names_keys_arguments_and_reply() -> None:
    header = Header.parse("example", EXAMPLE)
    assert header.keys == ("P",)
    assert header.arguments == ("host", "most", "url", "entries")
    assert [(group.name, group.columns) for group in header.groups] == [
        ("url", ("path", "level")),
        ("entries", ()),
    ]
    assert header.reply == ("level", "urls")
    assert header.prelude().splitlines() == [
        "local P = KEYS[1]",
        "local host, most = ARGV[1], tonumber(ARGV[2])",
        "local ARGV = ARGV",
        "local end_url = 3 + 2 * ARGV[3]",
        "local n_url = (end_url - 3) / 2",
        "local function url_at(i) local at = 3 + 2 * (i - 1) return ARGV[at + 1], tonumber(ARGV[at + 2]) end",
        "local entries = {unpack(ARGV, end_url + 1, #ARGV)}",
    ]


def test_arguments_are_packed_by_their_names() -> None:
    header = Header.parse("example", EXAMPLE)
    rows = {"level": [3, 4], "path": ["/a", "/b"]}
    packed = header.packed(["p"], {"entries": [b"x"], "url": rows, "most": 9, "host": "a"})
    assert packed == ["a", 9, 2, "/a", 3, "/b", 4, b"x"]
    assert [tuple(row) for row in header.unpacked([[1, 2], [3, 4]])] == [(1, 2), (3, 4)]
    assert header.unpacked([[1, 2]])[0].urls == 2


@cases(
    ("keys", "arguments"),
    [
        (["p", "q"], {"host": "a", "most": 1, "url": {"path": [], "level": []}, "entries": []}),
        (["p"], {"host": "a", "url": {"path": [], "level": []}, "entries": []}),
        (["p"], {"host": "a", "least": 1, "url": {"path": [], "level": []}, "entries": []}),
        (["p"], {"host": "a", "most": 1, "url": {"path": [], "depth": []}, "entries": []}),
    ],
)
def test_other_arguments_are_refused(keys: list[str], arguments: dict[str, object]) -> None:
    header = Header.parse("example", EXAMPLE)
    with pytest.raises(TypeError, match="url"):
        header.packed(keys, arguments)


def test_a_header_without_a_section_is_refused() -> None:
    with pytest.raises(ValueError, match=r"example\.lua must name KEYS, ARGV and reply"):
        Header.parse("example", EXAMPLE.replace("-- reply each", "--"))


def test_an_empty_reply_with_fields_is_none() -> None:
    assert script_header("receive").unpacked([]) is None
    assert script_header("receive").unpacked([1, 2, []]).waiting == 1
    assert script_header("lease").unpacked([]) == []


@cases("script", SCRIPTS)
def test_a_script_uses_the_names_of_its_header(script: str) -> None:
    header, text = script_header(script), own_text(script)
    assert not re.search(r"\b(KEYS|ARGV)\b", text)
    assert script_source(script)[1].endswith(re.sub(r"\A#!.*\n", "", (LUA / f"{script}.lua").read_text()))
    for group in header.groups:
        for names in re.findall(rf"local ([\w, ]+) = {group.name}_at\(", text):
            assert tuple(names.split(", ")) == group.columns
    if header.reply:
        assert f"{{{', '.join(header.reply)}}}" in text + COMMON


def test_scripts_are_called_with_the_names_of_their_headers() -> None:
    called = set()
    for script, call in calls():
        header = script_header(script) if script in SCRIPTS else Header.parse(script, example(script))
        called.add(script)
        arguments = {keyword.arg: keyword.value for keyword in call.keywords}
        assert arguments.keys() == set(header.arguments), script
        assert len(call.args) == 2, script
        for group in header.groups:
            if isinstance(rows := arguments[group.name], ast.Dict):
                assert tuple(map(ast.unparse, filter(None, rows.keys))) == tuple(map(repr, group.columns)), (
                    script
                )
    # the dupefilter registers its script with another client
    assert called >= set(SCRIPTS) - {"seen"}


def example(script: str) -> str:
    return (ROOT / "examples" / "frontier" / f"{script}.lua").read_text()


def test_a_call_has_the_arguments_in_the_order_of_the_header() -> None:
    call = script_call("lock", ["c", "n"], notes="seen", ms=10, owner="p")
    assert call == ("lock", ["c", "n"], ["p", 10, "seen"])
