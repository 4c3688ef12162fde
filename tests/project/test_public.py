"""The public face: the names of `webcrawl.__all__`, where they are documented, and who imports what."""

from __future__ import annotations

import ast
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import webcrawl
from tests.cases import cases
from tests.crawls import CHECKOUT
from tests.project.documentation import PAGES, blocks

PROGRAMS = [
    *sorted((CHECKOUT / "examples").rglob("*.py")),
    *sorted((CHECKOUT / "webcrawl" / "new" / "template").rglob("*.py.tmpl")),
]


def imported(code: str) -> set[tuple[str, str]]:
    """The names that code imports from `webcrawl` or below, with their modules."""
    return {
        (node.module or "", alias.name)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "webcrawl"
        for alias in node.names
    }


def test_every_public_name_is_imported_when_it_is_used() -> None:
    assert len(set(webcrawl.__all__)) == len(webcrawl.__all__)
    for name in webcrawl.__all__:
        assert getattr(webcrawl, name).__doc__, name
    assert set(webcrawl.__all__) <= set(dir(webcrawl))
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        webcrawl.Nonsense  # noqa: B018


def test_the_package_itself_imports_none_of_them() -> None:
    program = "import sys, webcrawl; print(*(name for name in sys.modules if name.startswith('webcrawl.')))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == []


def test_the_reference_documents_each_public_name_once() -> None:
    reference = runpy.run_path(str(CHECKOUT / "docs" / "site" / "hooks.py"))["API"]
    assert sorted(name for names in reference.values() for name in names) == sorted(webcrawl.__all__)


@cases("path", PROGRAMS, ids=lambda path: path.name)
def test_examples_import_from_the_package_alone(path: Path) -> None:
    for module, name in imported(path.read_text()):
        assert module == "webcrawl" and name in webcrawl.__all__, f"{module}.{name}"


@cases("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_pages_import_from_the_package_alone(page: Path) -> None:
    """Except what the page has just added to the package."""
    for code in blocks(page, "python"):
        for module, name in imported(code) if "import" in code else ():
            added = (CHECKOUT / Path(*module.split("."))).with_suffix(".py")
            assert (module == "webcrawl" and name in webcrawl.__all__) or not added.exists(), (
                f"{module}.{name}"
            )


def test_the_package_uses_its_own_modules_and_not_its_face() -> None:
    for path in (CHECKOUT / "webcrawl").rglob("*.py"):
        # to parse every file takes two seconds
        code = text if "from webcrawl import" in (text := path.read_text()) else ""
        names = {name for module, name in imported(code) if module == "webcrawl"}
        assert not names, path
