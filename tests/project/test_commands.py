"""The commands in `scrapy -h` and in docs/reference/commands.md, in the same groups."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tests.crawls import CHECKOUT, scrapy
from webcrawl.entry import EXAMPLES, FORMER, GROUPS, grouped

PAGE = (CHECKOUT / "docs" / "reference" / "commands.md").read_text()
MOST_WORDS = 10

_SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `scrapy (\w+)` \| (.+) \|$", re.MULTILINE)
_LISTED = re.compile(r"^  (\w+) +(.+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def purposes() -> dict[str, dict[str, str]]:
    """Group -> command -> its purpose, of the commands that exist."""
    return {
        group: {name: import_module(f"webcrawl.commands.{name}").Command().short_desc() for name in names}
        for group, names in GROUPS.items()
    }


def test_each_command_is_in_one_group_or_a_former_name() -> None:
    commands = {path.stem for path in (CHECKOUT / "webcrawl" / "commands").glob("[!_]*.py")}
    assert sorted([*FORMER, *(name for names in GROUPS.values() for name in names)]) == sorted(commands)
    assert {present.split()[0] for present in FORMER.values()} <= commands - FORMER.keys()


def test_the_page_lists_the_former_names() -> None:
    rows = re.findall(r"^\| `scrapy (\w+)` \| `scrapy (.+)` \|$", PAGE, re.MULTILINE)
    assert dict(rows) == FORMER


def test_the_page_lists_each_command_with_its_purpose(purposes: dict[str, dict[str, str]]) -> None:
    assert {group: dict(_ROW.findall(section)) for group, section in _SECTION.findall(PAGE)} == purposes


def test_a_purpose_is_short(purposes: dict[str, dict[str, str]]) -> None:
    long = [text for group in purposes.values() for text in group.values() if len(text.split()) > MOST_WORDS]
    assert not long


def test_scrapy_lists_the_groups(purposes: dict[str, dict[str, str]]) -> None:
    listing = scrapy("-h").stdout.partition("Available commands:\n")[2]
    sections = dict(re.findall(r"^(\w+):\n((?:  .+\n)+)", listing, re.MULTILINE))
    assert list(sections) == [*GROUPS, "Others"]
    for group, example in EXAMPLES.items():
        assert f"  such as: scrapy {example}\n" in sections[group]
        sections[group] = sections[group].replace(f"  such as: scrapy {example}\n", "")
    others = dict(_LISTED.findall(sections.pop("Others")))
    assert {group: dict(_LISTED.findall(section)) for group, section in sections.items()} == purposes
    assert "startproject" in others and not FORMER.keys() & others.keys()
    assert listing.endswith('Use "scrapy <command> -h" to see more info about a command\n')


def test_a_list_that_is_not_understood_stays() -> None:
    assert grouped("Commands: pause, resume\n").strip() == "Commands: pause, resume"
