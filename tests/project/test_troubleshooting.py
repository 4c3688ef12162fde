"""The messages that the troubleshooting page quotes are those of the product."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.cases import cases
from tests.crawls import CHECKOUT

PACKAGES = ("webcrawl", "middlewares", "pipelines", "spiders")
DOCS = CHECKOUT / "docs"
TROUBLESHOOTING = (DOCS / "start" / "troubleshooting.md", DOCS / "guide" / "troubleshooting-servers.md")

_QUOTED = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PLACEHOLDER = re.compile(r"%(?:\.\d+)?[srd]|\.\.\.")
_LEAST = 8
"""Characters of the shortest part that is looked for; shorter ones are found everywhere."""


def messages() -> list[str]:
    """Every string of the product without its placeholders, so that each occurs between two line breaks."""
    texts = []
    for path in [path for package in PACKAGES for path in sorted((CHECKOUT / package).rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts += _PLACEHOLDER.split(node.value)
    return texts


def quotations() -> Iterator[str]:
    for page in TROUBLESHOOTING:
        for block in _QUOTED.findall(page.read_text()):
            yield from block.splitlines()


@pytest.fixture(scope="module")
def product() -> list[str]:
    return messages()


@cases("quoted", [*quotations()])
def test_a_quoted_message_is_one_of_the_product(quoted: str, product: list[str]) -> None:
    parts = [part for part in quoted.split("...") if len(part) >= _LEAST]
    assert parts, "a quotation has a part that can be recognised"
    for part in parts:
        assert any(part in text for text in product), part
