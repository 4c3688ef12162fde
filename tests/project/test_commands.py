"""The commands in `scrapy -h` and in docs/reference/commands.md, in the same groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from scrapy.cmdline import ScrapyArgumentParser
from scrapy.utils.project import get_project_settings

from tests.crawls import CHECKOUT, scrapy
from tests.project.documentation import PAGES
from webcrawl.entry import EXAMPLES, FORMER, GROUPS, grouped

PAGE = (CHECKOUT / "docs" / "reference" / "commands.md").read_text()
MOST_WORDS = 10

_SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| `scrapy (\w+)` \| (.+) \|$", re.MULTILINE)
_SHOWN = re.compile(r"(?:^|[`/])(?:scrapy|webcrawl) ([a-z]+)\b((?:[^`\n|#;&>]|\\\n)*)", re.MULTILINE)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_OPTION = re.compile(r"(?<=\s)--?[a-zA-Z][a-z-]*")
_OURS = {name for names in GROUPS.values() for name in names}
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


def shown() -> Iterator[tuple[Path, str, str]]:
    """Yields page, command and the words after it, of each command of ours in the documentation."""
    for page in PAGES:
        if page.name not in ("CHANGELOG.md", "history-0.1.0.md"):
            for name, words in _SHOWN.findall(page.read_text()):
                if name in {*FORMER, *_OURS}:
                    yield page, name, _QUOTED.sub("", words)


def test_documented_commands_have_their_present_names_and_real_options() -> None:
    settings, options, wrong = get_project_settings(), {}, []
    for page, name, words in shown():
        if name in FORMER and page.name != "commands.md" and page.parent.name != "decisions":
            wrong.append((page.name, name))
        if name not in options:
            command = import_module(f"webcrawl.commands.{name}").Command()
            command.settings = settings
            parser = ScrapyArgumentParser(conflict_handler="resolve")
            command.add_options(parser)
            options[name] = {*parser._option_string_actions, "-d", "--data-dir"}
        wrong += [
            (page.name, f"{name} {word}") for word in _OPTION.findall(words) if word not in options[name]
        ]
    assert len(options) > 30 and wrong == []


def test_a_list_that_is_not_understood_stays() -> None:
    assert grouped("Commands: pause, resume\n").strip() == "Commands: pause, resume"
