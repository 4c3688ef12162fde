"""The tutorial does what it says: its files and commands are taken from the page, in their order."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crawls import CHECKOUT, NO_NAMES, scrapy
from tests.frontier.processes import until
from tests.ports import free_ports

PAGE = CHECKOUT / "docs" / "tutorial.md"

_FILE = re.compile(r"`([\w/]+\.py)`[^\n]*:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PRINTED = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INSTALLATION = ("make wheel", "python3 -m venv", ". venv", "pip install", "cd ")
"""Commands that the environment of the tests makes needless."""


@pytest.fixture
def page() -> str:
    """The page, with a free port instead of 8000."""
    return PAGE.read_text().replace("8000", str(free_ports(1)[0]))


@pytest.fixture
def background() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Programs that are stopped at the end."""
    programs: list[subprocess.Popen[bytes]] = []
    yield programs
    for program in programs:
        program.terminate()
        program.wait(60)


def write_files(page: str, project: Path) -> None:
    for name, text in _FILE.findall(page):
        path = project / name
        before = path.read_text() if path.exists() else ""
        path.write_text(before + text)


def listens(page: str) -> bool:
    """Whether the web server of the tutorial accepts connections."""
    found = re.search(r"http.server (\d+)", page)
    assert found
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", int(found[1]))) == 0


def test_the_tutorial_works(page: str, background: list[subprocess.Popen[bytes]], tmp_path: Path) -> None:
    bin_folder = Path(sys.executable).parent
    environment = {
        **{name: value for name, value in os.environ.items() if name not in ("REDIS_URL", "PYTHONPATH")},
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
    }
    printed = ""
    commands = [line for block in _COMMANDS.findall(page) for line in block.splitlines()]
    for command in commands:
        project = tmp_path / "books"
        if command.startswith(_INSTALLATION):
            continue
        folder = tmp_path if command.startswith("webcrawl new") else project
        if command.endswith("&"):
            words = command.removesuffix("&").split()
            background.append(
                subprocess.Popen([sys.executable, *words[1:]], cwd=folder, stderr=subprocess.DEVNULL)
            )
            assert until(lambda: listens(page))
            continue
        if command.startswith("scrapy crawl"):
            command += f" -s DOWNLOAD_DELAY=0.05 -s DNS_SERVERS={NO_NAMES}"
        if command.startswith("scrapy"):
            done = scrapy(*shlex.split(command)[1:], cwd=folder, env=environment)
        else:
            done = subprocess.run(
                command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
            )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        printed += done.stdout + done.stderr
        if command.startswith("webcrawl new"):
            write_files(page, project)
    for expected in _PRINTED.findall(page):
        assert expected in printed
    assert "there is nothing left to crawl" in printed
