"""Each row of docs/reference/scrapy-here.md and docs/reference/real-servers.md names tests, and they exist."""

from __future__ import annotations

import re

import pytest

from tests.cases import cases
from tests.crawls import CHECKOUT

DOCS = CHECKOUT / "docs"

_ROW = re.compile(r"^\| (?!what you know|What is sent|-)(.+?) \| .+ \| (.+) \|$", re.MULTILINE)
_FUNCTION = re.compile(r"^ *(?:async )?def (\w+)\(", re.MULTILINE)
_TEST = re.compile(r"`(\w+)`")


@pytest.fixture(scope="module")
def known() -> set[str]:
    """The names of all tests."""
    files = (CHECKOUT / "tests").rglob("test_*.py")
    # syntax trees would take a second
    return {name for path in files for name in _FUNCTION.findall(path.read_text())}


# tests/unit/test_without_effect.py compares the last table with the code
_TESTED = (DOCS / "reference" / "scrapy-here.md").read_text().partition("## Settings without effect")[0]
_ROWS = _ROW.findall(_TESTED + (DOCS / "reference" / "real-servers.md").read_text())


@cases("topic, names", _ROWS, ids=lambda text: text[:40])
def test_each_row_has_a_test(topic: str, names: str, known: set[str]) -> None:
    tests = set(_TEST.findall(names))
    assert tests
    assert tests <= known, topic
