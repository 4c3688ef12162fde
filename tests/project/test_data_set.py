"""The how-to about data sets does what it says: its commands and its Python run, in their order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crawls import CHECKOUT, NO_NAMES, scrapy
from tests.project.documentation import blocks
from tests.web import LocalWeb

PAGE = CHECKOUT / "docs" / "start" / "build-a-data-set.md"
SITE, OTHER = "127.0.1.1", "127.0.1.2"
WORDS = " ".join(f"word{number}" for number in range(40))


def fill(web: LocalWeb) -> None:
    menu = f"<nav class=menu><ul><li><a href=/>home</a><li><a href={web.url(OTHER)}>friend</a></ul></nav>"
    for number in range(12):
        prose = (
            f"<article><p>Page {number}. {WORDS} <a href=/{(number + 1) % 12}>after {number}</a></article>"
        )
        web.put(SITE, f"/{number}", f"<title>{number}</title>{menu}{prose}")
    web.put(SITE, "/", f"<title>home</title>{menu}<p>{WORDS} <a href=/0>begin</a>")
    web.put(OTHER, "/", f"<title>friend</title><p>{WORDS} <a href={web.url(SITE, '/5')}>the fifth</a>")


def made(folder: Path, web: LocalWeb) -> list[dict[str, Any]]:
    """Runs the Python of the page as one program; returns the rows of the data set."""
    code = "\n".join([*blocks(PAGE, "python"), "print(between_hosts.rows(), len(train) + len(test))"])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    one, other = (web.host(address).removeprefix("http://") for address in (SITE, OTHER))
    assert done.stdout == f"[({one!r}, {other!r}, 13), ({other!r}, {one!r}, 1)] 14\n"
    import polars  # slow, and every process of tests imports this file

    rows: list[dict[str, Any]] = polars.read_parquet(folder / "dataset.parquet").to_dicts()
    return rows


def test_a_crawl_becomes_a_data_set(local_web: Callable[..., LocalWeb], tmp_path: Path) -> None:
    web = local_web(SITE, OTHER)
    fill(web)
    commands = [line.split() for code in blocks(PAGE, "sh") for line in code.splitlines()]
    assert [words[:2] for words in commands] == [
        ["pip", "install"], ["webcrawl", "crawl"], ["webcrawl", "export"], ["webcrawl", "export"],
        ["webcrawl", "reparse"], ["webcrawl", "links"],
    ]  # fmt: skip
    options = ["-s", f"DATA_DIR={tmp_path}/data", "-s", "DOWNLOAD_DELAY=0", "-s", f"DNS_SERVERS={NO_NAMES}"]
    found = []
    exports = [
        [*words[:-1], f"{tmp_path}/{words[-1]}", "--force"] for _, *words in commands if words[0] == "export"
    ]
    for _, *words in (commands[1], *commands[4:]):
        seeded = [word.replace("https://example.org/", f"{web.url(SITE)},{web.url(OTHER)}") for word in words]
        for command in (seeded, *exports):
            scrapy(*command, *options, timeout=180)
        found.append(made(tmp_path, web))
    assert found[0] == found[1] == found[2]
    pages = {row["url"]: row for row in found[0]}
    assert len(pages) == 14
    fifth = pages[web.url(SITE, "/5")]
    assert fifth["text"] == f"Page 5. {WORDS} after 5"
    assert (fifth["title"], fifth["pages"], fifth["anchors"]) == ("5", 2, ["after 4", "the fifth"])
    assert pages[web.url(SITE)]["anchors"] == [], "its only links are in the menu"
    assert len(list((tmp_path / "data" / "links").iterdir())) == 1
