"""How the first hour of a new user is run: a shell that goes on, and the commands that are found."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmarks.first_hour import LEFT_OUT, PAGES, installing, summary_commands
from tests.crawls import CHECKOUT
from tests.project.shown_commands import Shell, shown_blocks
from webcrawl.config.libraries import install_command
from webcrawl.errors import LibraryMissing

SUMMARY = """The demo web: http://127.0.0.1:1/, http://127.0.0.1:2/
Crawl finished: there is nothing left to crawl.
  look with   scrapy page URL          a page as Markdown
              scrapy export -o FOLDER  all rows as JSON Lines
              each with: -d data/demo
  more        webcrawl search WORDS: /v/bin/python -m pip install tantivy
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    (tmp_path / "notes").mkdir()
    return Shell(tmp_path, os.environ, tmp_path / "notes")


def test_a_shell_keeps_its_folder_and_its_environment(shell: Shell) -> None:
    shell.write("deep/a.py", "print(1)\n")
    shell.write("deep/a.py", "print(2)\n")
    assert not shell.run("cd deep && export WORD='two lines\n=both'").failed
    done = shell.run('cat a.py; echo "$WORD" >&2; false')
    assert (done.output, done.status) == ("print(1)\nprint(2)\ntwo lines\n=both\n", 1)


def test_a_server_of_a_page_ends_with_the_shell(shell: Shell) -> None:
    with shell:
        waits = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
        done = shell.serve(f"{sys.executable} -c '{waits}' &", lambda output: "\n" in output)
        assert done.status is None and not done.failed
        number = int(done.output)
        os.kill(number, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_the_commands_of_a_summary_get_something_to_look_for() -> None:
    assert summary_commands(SUMMARY) == [
        "scrapy page http://127.0.0.1:1/ -d data/demo",
        "scrapy export -o rows -d data/demo",
        "webcrawl search garden -d data/demo",
    ]


def test_the_installation_that_a_command_offers_is_recognized() -> None:
    command = install_command(["search", "parquet"])
    assert installing(f"webcrawl search: {LibraryMissing('search', 'tantivy', command)}\n") == command


def test_every_page_has_blocks_and_every_reason_is_used() -> None:
    shown = [
        command
        for page in PAGES
        for block in shown_blocks((CHECKOUT / page).read_text())
        for command in block.commands
    ]
    assert len(shown) > 30
    assert [begin for begin in LEFT_OUT if not any(command.startswith(begin) for command in shown)] == []
