"""POLITENESS_RULES: matching, precedence, errors and files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.config import PolitenessConfig, read
from webcrawl.errors import ConfigurationError
from webcrawl.hosts.rules import HostRules, RobotsAgents

COMMON = PolitenessConfig(delay=1.0, concurrency=2)
SLOT = PolitenessConfig(delay=9.0, concurrency=3)

LABELS = st.sampled_from(["a", "b", "org", "example"])
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
MATCHES = st.tuples(st.sampled_from(["", ".", "*."]), NAMES).map("".join)


def rules_of(*entries: dict[str, Any]) -> HostRules:
    setting = read({"POLITENESS_RULES": list(entries)}, "POLITENESS_RULES")
    return HostRules.from_setting(setting, COMMON, {"slot.example": SLOT})


@cases(
    ("match", "name", "matches"),
    [
        ("example.org", "example.org", True),
        ("example.org", "www.example.org", False),
        ("*.example.org", "example.org", False),
        ("*.example.org", "www.example.org", True),
        ("*.example.org", "a.b.example.org", True),
        ("*.example.org", "badexample.org", False),
        (".example.org", "example.org", True),
        (".example.org", "a.b.example.org", True),
        (".example.org", "example.org.", True),
        ("EXAMPLE.org.", "example.org", True),
        ("*.bücher.example", "www.xn--bcher-kva.example", True),
        (".org", "example.org", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("[::1]", "::1", True),
        (".example", "127.0.0.1", False),
    ],
)
def test_a_rule_matches_names(match: str, name: str, matches: bool) -> None:
    rules = rules_of({"match": match, "delay": 5})
    assert (rules.of(name).delay == 5) == matches
    assert rules.config_of(name).delay == (5 if matches else 1)
    assert rules.config_of(name).concurrency == 2


def test_the_most_specific_rule_decides_each_field() -> None:
    rules = rules_of(
        {"match": ".example.org", "delay": 1, "connections": 4, "max_pages": 10, "user_agent": "one"},
        {"match": "*.example.org", "delay": 2, "connections": 5, "max_pages": 20},
        {"match": ".www.example.org", "delay": 3, "connections": 6},
        {"match": "www.example.org", "delay": 4},
        {"match": ".org", "delay": 8},
    )
    assert rules.of("www.example.org")[1:] == (4, 6, 20, "one")
    assert rules.of("a.www.example.org")[1:] == (3, 6, 20, "one")
    assert rules.of("b.example.org")[1:] == (2, 5, 20, "one")
    assert rules.of("example.org")[1:] == (1, 4, 10, "one")
    assert rules.of("other.org")[1:] == (8, None, None, None)
    assert rules.of("b.example.org").match == "*.example.org, .example.org"
    assert rules.max_pages("https://b.example.org:8443") == 20


@given(st.lists(MATCHES, unique=True, max_size=12), NAMES)
def test_matching_rules_are_found_as_by_trying_each(matches: list[str], name: str) -> None:
    rules = rules_of(*({"match": match, "delay": 1} for match in matches))

    def applies(match: str) -> bool:
        bare = match.removeprefix("*").removeprefix(".")
        below = name.endswith(f".{bare}") and match[0] in "*."
        return below or (name == bare and match[0] != "*")

    # a longer name first, then the exact one, and those that say less last
    order = {"*": 1, ".": 2}
    expected = sorted(
        filter(applies, matches),
        key=lambda match: (-match.lstrip("*").strip(".").count("."), order.get(match[0], 0)),
    )
    assert [rule.match for rule in rules.matching(name)] == expected


def test_a_rule_comes_before_a_slot() -> None:
    rules = rules_of({"match": "*.example", "delay": 5})
    assert rules.config_of("slot.example") == PolitenessConfig(delay=5.0, concurrency=3)


@cases(
    ("entries", "said"),
    [
        (
            [{"match": "a.example", "delai": 5}],
            "entry 1: there is no field 'delai'; the fields are \"match\"",
        ),
        ([{"match": "a.example", "delay": -1}], 'entry 1: "delay" must be a number of at least 0, not -1'),
        ([{"match": "a.example", "delay": True}], 'entry 1: "delay" must be'),
        (
            [{"match": "a.example", "connections": 0}],
            'entry 1: "connections" must be a whole number of at least 1',
        ),
        ([{"match": "a.example", "max_pages": 1.5}], 'entry 1: "max_pages" must be'),
        ([{"match": "a.example", "user_agent": "a\r\nb"}], 'entry 1: "user_agent" must be text of printable'),
        ([{"match": "a.example", "user_agent": ""}], 'entry 1: "user_agent" must be'),
        ([{"match": "a.example"}], "entry 1: it says nothing about 'a.example'"),
        ([{"delay": 1}], 'entry 1: "match" must be the name of a host'),
        ([{"match": "a.example", "delay": 1}, "b"], "entry 2: 'b' is not a dict"),
        ([{"match": "a.*.example", "delay": 1}], "entry 1: \"match\" 'a.*.example' has a wildcard elsewhere"),
        ([{"match": "http://a.example", "delay": 1}], "entry 1: \"match\" 'http://a.example' has a scheme"),
        ([{"match": "*.127.0.0.1", "delay": 1}], "is an address"),
        (
            [{"match": "a.example", "delay": 1}, {"match": "A.example", "delay": 2}],
            "entry 2: \"match\" 'A.example' has",
        ),
        ("nothing", "must be a list of dicts"),
        ({"match": "a.example"}, "must be a list of dicts"),
    ],
)
def test_a_wrong_rule_is_named(entries: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        HostRules.from_setting(read({"POLITENESS_RULES": entries}, "POLITENESS_RULES"), COMMON, {})
    assert str(error.value).startswith("POLITENESS_RULES") and said in str(error.value)


def test_the_cost_of_a_look_up_does_not_grow_with_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counted(dict[str, Any]):
        asked = 0

        def get(self, key: str, default: Any = None) -> Any:
            Counted.asked += 1
            return super().get(key, default)

    rules = rules_of(*({"match": f"*.h{n}.example", "delay": 1} for n in range(2000)))
    rules.use(Counted(rules._rules))
    assert rules.of("www.h7.example").delay == 1
    assert Counted.asked <= 8


def write(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text(json.dumps([{"match": "a.example", "delay": 5, "max_pages": 3}]))
    rules = HostRules.from_setting(f"@{path}", COMMON, {})
    before = rules.limits_pages
    assert rules.config_of("a.example").delay == 5
    assert rules.changed() is None
    write(path, json.dumps([{"match": "a.example", "delay": 7}]))
    table = rules.changed()
    assert table is not None
    assert rules.config_of("a.example").delay == 5, "before they are in use"
    rules.use(table)
    assert rules.config_of("a.example").delay == 7
    assert before and not rules.limits_pages
    write(path, '[{"match": "a.example",\n "delay": 8},\n\n {"match": "b.example", "delay": "x"}]')
    with pytest.raises(ConfigurationError, match=r'rules.json, entry 2 \(line 4\): "delay" must be'):
        rules.changed()
    assert rules.changed() is None, "a wrong file is reported once"
    assert rules.config_of("a.example").delay == 7
    path.unlink()
    with pytest.raises(ConfigurationError, match="cannot be read"):
        rules.changed()
    assert rules.changed() is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1, column 1"),
        ("{}", "line 1, column 1: Expecting a list of rules"),
        ('[\n{"match": "a.example", "delay": 1}\n{"match": "b.example"}]', "line 3, column 1: Expecting ','"),
        ('[\n{"match": "a.example", "delay": 1},\n]', "line 3, column 1"),
        ("[] []", "line 1, column 4: Extra data"),
        ('[{"match": "a.example",\n"delay" 1}]', "line 2"),
        ("[", "line 1"),
    ],
)
def test_a_wrong_file_is_reported_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "rules.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        HostRules.from_setting(f"@{path}", COMMON, {})
    assert f"{path}, " in str(error.value) and said in str(error.value)


def test_a_file_may_be_empty(tmp_path: Path) -> None:
    (tmp_path / "rules.json").write_text(" [ ] ")
    assert HostRules.from_setting(f"@{tmp_path}/rules.json", COMMON, {}).config_of("a.example") == COMMON


def test_robots_txt_is_read_by_the_agent_of_the_rule() -> None:
    rules = rules_of({"match": "a.example", "user_agent": "onebot/1"})
    assert RobotsAgents(None, "usual/1", rules).of("http://a.example") == "onebot/1"
    assert RobotsAgents(None, "usual/1", rules).of("http://b.example") == "usual/1"
    assert RobotsAgents("fixed", "usual/1", rules).of("http://a.example") == "fixed"
    assert RobotsAgents(None, "usual/1", None).of("http://a.example") == "usual/1"
