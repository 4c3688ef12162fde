"""The documentation matches the code: links, paths, commands, rooms and pictures."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import webcrawl
from tests.cases import cases
from tests.crawls import CHECKOUT
from tests.project.documentation import (
    BLOCK,
    PAGES,
    PROJECT,
    REFERENCE,
    SETTINGS,
    blocks,
    new_tests,
)
from webcrawl.alarms.tables import ALARMS
from webcrawl.config import parts
from webcrawl.engine import keys
from webcrawl.frontier.checkpoint import files as checkpoint_files
from webcrawl.frontier.figures import CrawlFigures
from webcrawl.jobs.tables import JOBS
from webcrawl.policies import mined
from webcrawl.search import schema as search_schema
from webcrawl.stores.schema import PAGES as PAGE_TABLES
from webcrawl.stores.warc import records as warc_records, wacz

README = CHECKOUT / "README.md"

MOST_WORDS = 1_500
"""Of a page that is read from top to bottom, with its code and tables."""

STARTS = [
    *("build-a-data-set", "check-links", "crawl-a-site", "deploy", "follow-a-news-site"),
    *("log-in", "many-machines", "mirror", "search", "troubleshooting"),
]

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_WORD = re.compile(r"`(\w+)`")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Returns the link fragments that GitHub generates for a page's headings."""
    headings = _HEADING.findall(BLOCK.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short_and_begins_with_the_two_commands() -> None:
    assert len(README.read_text().splitlines()) < 110
    assert README.read_text().count(".venv/bin/webcrawl ") == 5
    assert blocks(README, "sh")[0] == 'make crawl SEEDS="https://example.org/"\nmake test\n'


@cases("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_relative_links_have_existing_targets(page: Path) -> None:
    for link in _LINK.findall(BLOCK.sub("", page.read_text())):
        if link.startswith(("https://", "http://")):
            continue
        path, _, fragment = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(CHECKOUT), link
        assert not fragment or fragment in anchors(target), link


@cases(
    "page", sorted({*PAGES} & {*(CHECKOUT / "docs").rglob("*.md")} - REFERENCE), ids=lambda page: page.stem
)
def test_a_page_that_is_no_reference_is_short(page: Path) -> None:
    assert len(page.read_text().split()) <= MOST_WORDS, "move details to docs/reference, or split the page"


def test_there_are_ten_pages_to_start_with() -> None:
    assert sorted(page.stem for page in (CHECKOUT / "docs" / "start").glob("*.md")) == STARTS


@cases("name", STARTS)
def test_a_page_to_start_with_shows_the_program_that_runs_in_any_folder(name: str) -> None:
    code = "\n".join(blocks(CHECKOUT / "docs" / "start" / f"{name}.md", "sh"))
    assert not re.search(r"^(\S*/)?scrapy ", code, re.MULTILINE)


def test_documented_make_targets_and_variables_exist() -> None:
    makefile = (CHECKOUT / "Makefile").read_text()
    targets = set(re.findall(r"^(\w+):", makefile, re.MULTILINE))
    code = "\n".join(code for page in PAGES for code in blocks(page, "sh"))
    documented = re.findall(r"^make (\w+)(.*)$", code, re.MULTILINE)
    assert {"crawl", "test", "check", "format"} <= {target for target, _ in documented} <= targets
    variables = {
        name for _, words in documented for name in re.findall(r"\b([A-Z_]+)=", words.partition("#")[0])
    }
    in_readme = set(re.findall(r"^\| `([A-Z_]+)=", README.read_text(), re.MULTILINE))
    assert in_readme == {"SEEDS", "SCOPE", "MAX_PAGES", "WORKERS", "DATA", "ARGS"}
    assert variables - set(SETTINGS) - {"DOWNLOAD_DELAY"} <= in_readme
    assert all(name in makefile for name in in_readme)


def test_the_changelog_names_this_version() -> None:
    text = (CHECKOUT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## \[([^\]]+)\] - (unreleased|\d{4}-\d\d-\d\d)$", text, re.MULTILINE)
    assert headings[0][0] == webcrawl.__version__
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= {"Added", "Changed", "Fixed", "Removed"}


def test_the_page_on_statistics_has_every_figure_of_a_summary() -> None:
    text = (CHECKOUT / "docs" / "reference" / "statistics.md").read_text()
    named = [
        name for row in re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE) for name in _WORD.findall(row)
    ]
    assert sorted(named) == sorted(["crawl", "finish_reason", *CrawlFigures.__dataclass_fields__])


def test_the_page_on_stability_names_the_versions_of_all_data_formats() -> None:
    text = (CHECKOUT / "docs" / "stability.md").read_text()
    table = re.search(r"^\| data \| version \|\n\|---\|---\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table
    assert dict(re.findall(r"^\| (.+?) \| (.+?) \|$", table[1], re.MULTILINE)) == {
        "keys of a crawl in the engine": str(keys.FORMAT),
        "checkpoints": str(checkpoint_files.FORMAT),
        "tables of pages in the metadata database": str(PAGE_TABLES.version),
        "tables of jobs in the metadata database": str(JOBS.version),
        "tables of stuck pages and notifications in the metadata database": str(ALARMS.version),
        "full-text index": str(search_schema.VERSION),
        "weights of `scrapy mine`": str(mined.VERSION),
        "archive": f"{warc_records.VERSION.decode().strip()}, CDXJ, WACZ {wacz.VERSION}",
    }


def test_the_architecture_names_every_private_import_from_scrapy() -> None:
    text = (CHECKOUT / "docs" / "architecture.md").read_text()
    for path in [path for package in PROJECT[:-1] for path in (CHECKOUT / package).rglob("*.py")]:
        # to parse every file takes two seconds
        code = content if "from scrapy" in (content := path.read_text()) else ""
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "scrapy":
                for name in (alias.name for alias in node.names if alias.name.startswith("_")):
                    assert f"{node.module}.{name}" in text, f"{path.name} imports {name}"


def rooms() -> set[str]:
    """The modules and packages of webcrawl."""
    return {
        path.stem
        for path in (CHECKOUT / "webcrawl").glob("[!_]*")
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }


def test_the_architecture_names_every_room() -> None:
    text = (CHECKOUT / "docs" / "architecture.md").read_text()
    table = re.search(r"^\| room \| what it holds \|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table
    assert sorted(re.findall(r"^\| `(\w+)`", table[1], re.MULTILINE)) == sorted(rooms())


def test_the_architecture_names_the_downloader_middlewares_in_order() -> None:
    text = (CHECKOUT / "docs" / "architecture.md").read_text()
    table = re.search(r"^\| middleware \| task \|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table
    named = re.findall(r"^\| `(\w+)`", table[1], re.MULTILINE)
    assert all((CHECKOUT / "webcrawl" / "middlewares" / f"{name}.py").exists() for name in named)
    places = {
        path.split(".")[-2]: place
        for path, place in parts.DOWNLOADER_MIDDLEWARES.items()
        if place is not None
    }
    registered = [name for name in named if name in places]
    assert len(registered) > 5 and registered == sorted(registered, key=lambda name: places[name])


@cases("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_paths_and_modules_named_by_a_page_exist(page: Path) -> None:
    text = page.read_text()
    # the tutorial creates a project of its own, and test_tutorial.py runs it
    written = {*new_tests(page), *re.findall(r"`([\w/]+\.py)`[^\n]*:\n\n```python", text)}
    copied = set(re.findall(r"^cp examples/\S+/(\S+) (\S+/)$", text, re.MULTILINE))
    folders = "|".join((*PROJECT[:-1], "tests", "examples", "benchmarks", "docs"))
    for path in re.findall(rf"`((?:{folders})/[\w./-]*)`", text):
        exists = (CHECKOUT / path).exists() or path in written
        assert exists or any(path == folder + name for name, folder in copied), path
    for name in re.findall(r"`((?:webcrawl|spiders|middlewares|pipelines)(?:\.\w+)+)`", text):
        parts = name.split(".")
        places = [CHECKOUT.joinpath(*parts[:end]) for end in range(2, len(parts) + 1)]
        assert any(place.is_dir() or place.with_suffix(".py").exists() for place in places), name


def test_the_picture_shows_every_room_and_no_other() -> None:
    source = (CHECKOUT / "docs" / "architecture.dot").read_text()
    labels = re.findall(r"<b>(\w+/?)</b>", source)
    plain = re.findall(r"^    (?!node|edge|[pt]_)(\w+) +\[(?!.*label)", source, re.MULTILINE)
    assert {name for name in (*labels, *plain) if not name.endswith("/")} == rooms()
    assert all((CHECKOUT / name).is_dir() for name in labels if name.endswith("/"))
    drawn = re.findall(r"<text[^>]*>([\w/]+)</text>", (CHECKOUT / "docs" / "architecture.svg").read_text())
    assert {*labels, *plain} <= set(drawn)
    for page in (README, CHECKOUT / "docs" / "architecture.md"):
        assert re.search(r"!\[[^\]]+\]\((?:docs/)?architecture\.svg\)", page.read_text()), page.name


def test_the_tests_named_in_the_frontier_page_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", (CHECKOUT / "docs" / "reference" / "frontier.md").read_text()))
    files = (CHECKOUT / "tests" / "frontier").glob("test_*.py")
    assert named and named <= {
        name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())
    }
