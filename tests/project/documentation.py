"""The pages of the documentation, their code blocks, and the examples that they show."""

from __future__ import annotations

import re
from pathlib import Path

from settings import base
from tests.crawls import CHECKOUT
from webcrawl.config import DECLARED, parts

HOWTOS = sorted(
    path for path in (CHECKOUT / "docs").glob("*/*.md") if path.parent.name in ("start", "guide", "howto")
)
REFERENCE = {
    *(CHECKOUT / "docs" / "reference").glob("*.md"),
    *(CHECKOUT / "docs" / name for name in ("architecture.md", "glossary.md", "scale.md")),
}
"""The pages with all details, which a reader looks up rather than reads."""
PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted((CHECKOUT / "docs").rglob("*.md"))]
# a folder with a scrapy.cfg is a project of its own with its own test
EXAMPLES = sorted(
    path
    for path in (CHECKOUT / "examples").rglob("*.*")
    if path.suffix in (".py", ".lua") and not (path.parent / "scrapy.cfg").exists()
)
_PROGRAMS = ("duckdb", "language_model", "listeners", "scripts")
# programs that read the results of a crawl, or start one
PROGRAMS = [path for path in EXAMPLES if path.parent.name in _PROGRAMS]
SETTINGS = {*DECLARED, *parts.VALUES, *(name for name in vars(base) if name.isupper())}
PROJECT = ("webcrawl", "spiders", "middlewares", "pipelines", "settings", "scrapy.cfg")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_NEW_TEST = re.compile(r"`(tests/[\w/]+\.py)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """Returns the code blocks of a page in one language."""
    return [code for name, code in BLOCK.findall(page.read_text()) if name == language]


def new_tests(page: Path) -> dict[str, str]:
    """Returns path -> code of the tests that a how-to writes: a block after the name of a file."""
    return dict(_NEW_TEST.findall(page.read_text()))
