"""The how-to about the search does what it says: its commands are run in their order, and print what it shows."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from tests.crawls import CHECKOUT, NO_NAMES, scrapy
from tests.project.documentation import PROJECT, blocks
from webcrawl.demo import FIRST_PORT, demo_settings, demo_web

PAGE = CHECKOUT / "docs" / "start" / "search.md"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in PROJECT:
        source = CHECKOUT / name
        if source.is_dir() and name != "webcrawl":
            shutil.copytree(source, tmp_path / name)
        elif source.is_file():
            shutil.copy(source, tmp_path)
    return tmp_path


def test_the_commands_print_what_the_page_shows(project: Path) -> None:
    install, crawl, *others = [line for code in blocks(PAGE, "sh") for line in code.splitlines()]
    assert "pip install" in install
    assert crawl == "make crawl"
    printed = ""
    with demo_web(FIRST_PORT + 300) as seeds:
        port = seeds[0].rstrip("/").rpartition(":")[2]
        words = ["-a", f"seeds={','.join(seeds)}", "-a", "scope=host", "-d", "data/demo"]
        for name, value in (demo_settings() | {"DOWNLOAD_DELAY": "0.01"}).items():
            words += ["-s", f"{name}={value}"]
        run("crawl", "broad", *words, folder=project)
    for line in others:
        command, _, file = line.replace(str(FIRST_PORT), port).partition(" > ")
        out = run(*shlex.split(command)[1:], folder=project)
        if file:
            (project / file).write_text(out)
        printed += out
    shown = [text.replace(str(FIRST_PORT), port) for text in blocks(PAGE, "text")]
    assert len(shown) == 3 and [text for text in shown if text not in printed] == [], printed


def run(*words: str, folder: Path) -> str:
    done = scrapy(*words, "-s", f"DNS_SERVERS={NO_NAMES}", cwd=folder, timeout=60)
    return done.stdout
