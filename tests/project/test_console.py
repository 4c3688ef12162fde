"""The program `webcrawl` in any folder, and `scrapy` outside of projects that use the add-on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.console import scrapy, webcrawl
from webcrawl.config.program import VERSION
from webcrawl.console import main
from webcrawl.entry import EXAMPLES, GROUPS

THEIRS = 'BOT_NAME = "theirs"\nSPIDER_MODULES = []\n'


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A project of Scrapy without the add-on."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = their_settings\n")
    (tmp_path / "their_settings.py").write_text(THEIRS)
    return tmp_path


@pytest.mark.parametrize("words", [[], ["-h"]])
def test_the_help_has_groups_with_an_example_each(words: list[str], tmp_path: Path) -> None:
    text = webcrawl(*words, folder=tmp_path).stdout
    sections = re.findall(r"^(\w+):\n((?:  .+\n)+)", text, re.MULTILINE)
    assert [name for name, _ in sections] == list(GROUPS)
    for group, lines in sections:
        *commands, example = lines.splitlines()
        assert [line.split()[0] for line in commands] == list(GROUPS[group])
        assert example == f"  such as: webcrawl {EXAMPLES[group]}"
        assert EXAMPLES[group].split()[0] in GROUPS[group]


def test_the_help_of_a_command_names_this_program(tmp_path: Path) -> None:
    text = webcrawl("page", "-h", folder=tmp_path).stdout
    assert "webcrawl page [options] <url>" in text and "-d FOLDER, --data-dir FOLDER" in text
    assert "scrapy" not in text


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"webcrawl {VERSION}\n"


def test_commands_of_scrapy_work_too(tmp_path: Path) -> None:
    assert webcrawl("version", folder=tmp_path).stdout == f"webcrawl {VERSION}\n"
    assert "Scrapy " in webcrawl("version", "-v", folder=tmp_path).stdout
    assert webcrawl("list", folder=tmp_path).stdout.split() == [
        *("broad", "linkcheck", "live", "mirror", "monitor", "sitemap")
    ]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("pge", "there is no command 'pge'; did you mean page? `webcrawl -h` lists them"),
        ("zzzz", "there is no command 'zzzz': `webcrawl -h` lists them"),
        (
            "example.org",
            "example.org is no command: `webcrawl crawl example.org` crawls it, "
            "`webcrawl page example.org` shows that page",
        ),
    ],
)
def test_an_unknown_command_gets_one_line(word: str, message: str, tmp_path: Path) -> None:
    assert webcrawl(word, folder=tmp_path, code=2).stderr == f"webcrawl: {message}\n"


def test_an_unknown_option_is_an_error(tmp_path: Path) -> None:
    assert webcrawl("stuck", "--jsn", folder=tmp_path, code=2).stderr.endswith(
        "error: there is no option --jsn\n"
    )


def test_the_folder_of_the_results_has_a_short_option(tmp_path: Path) -> None:
    done = webcrawl("export", "-o", "x", "-d", "else/where", folder=tmp_path, code=1)
    assert done.stderr == (
        f"webcrawl export: nothing was stored yet: there is no {tmp_path}/else/where/metadata.db\n"
    )


def test_scrapy_outside_a_project_names_webcrawl(tmp_path: Path) -> None:
    listing = scrapy("-h", folder=tmp_path).stdout
    ours = {name for names in GROUPS.values() for name in names}
    assert ours & set(re.findall(r"^  (\w+) ", listing, re.MULTILINE)) == {
        "fetch",
        "settings",
        "shell",
        "view",
    }
    assert listing.count("webcrawl crawl https://example.org/") == 1
    for name, instead in {"crawl": "webcrawl crawl URL", "pause": "webcrawl pause"}.items():
        assert scrapy(name, "broad", folder=tmp_path, code=2).stderr == (
            f"scrapy {name}: there is no project here: change to its folder, or run `{instead}`, which needs none\n"
        )


def test_a_project_without_the_addon_has_the_commands_of_scrapy(theirs: Path) -> None:
    listing = scrapy("-h", folder=theirs).stdout
    assert re.search(r"^  crawl ", listing, re.MULTILINE) and not re.search(
        r"^  pause ", listing, re.MULTILINE
    )
    assert "[ webcrawl ]  This project does not use webcrawl: ADDONS = " in listing
    assert webcrawl("pause", folder=theirs, code=2).stderr.startswith(
        "webcrawl pause: this project does not use webcrawl: add ADDONS = "
    )


def test_a_misspelt_setting_of_the_command_line_is_named(tmp_path: Path) -> None:
    done = webcrawl(
        "export", "-o", "x", "-s", "METADTA=1", "-s", "DATA_DRI=x", "-s", "MINE=1", folder=tmp_path, code=1
    )
    assert done.stderr.startswith("webcrawl export: DATA_DRI is not a setting; did you mean DATA_DIR?\n")
    assert done.stderr.count("did you mean") == 1
