"""Import directions, and the contents of wheel and egg."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import webcrawl
from tests.crawls import CHECKOUT

PACKAGES = {"webcrawl", "spiders", "middlewares", "pipelines", "settings"}
BUILT_FROM = [*PACKAGES, "pyproject.toml", "setup.py", "README.md", "LICENSE"]
SHIPPED = (
    ".py",
    ".pyi",
    ".lua",
    ".proto",
    ".binpb",
    ".tmpl",
    "py.typed",
    ".html",
    ".css",
    ".js",
    ".svg",
    "uplot/LICENSE",
    "uplot/README.md",
)


def run(*words: str, folder: Path = CHECKOUT) -> str:
    done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], zipfile.ZipFile]:
    """Builds a copy of the sources with `python setup.py COMMAND`, once and without leftovers of earlier builds."""
    return cache(lambda command: build(command, tmp_path_factory.mktemp(command)))


def build(command: str, folder: Path) -> zipfile.ZipFile:
    for name in BUILT_FROM:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, folder)
    # packages that must not be shipped
    for name in ("tests", "examples"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").touch()
    run("setup.py", "-q", command, "--dist-dir", "made", folder=folder)
    (made,) = (folder / "made").iterdir()
    return zipfile.ZipFile(made)


def sources(packages: set[str]) -> set[str]:
    """Returns the files that a distribution must contain, relative to the checkout."""
    files = {path for package in packages for path in (CHECKOUT / package).rglob("*") if path.is_file()}
    return {str(path.relative_to(CHECKOUT)) for path in files if str(path).endswith(SHIPPED)}


def test_imports_follow_the_contracts() -> None:
    program = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    run("-c", program)


@pytest.mark.parametrize(
    ("command", "packages"), [("bdist_wheel", {"webcrawl"}), ("bdist_egg", PACKAGES)], ids=["wheel", "egg"]
)
def test_a_distribution_contains_the_packages_and_nothing_else(
    command: str, packages: set[str], built: Callable[[str], zipfile.ZipFile]
) -> None:
    names = {name for name in built(command).namelist() if not name.endswith((".pyc", "/"))}
    tops = {name.partition("/")[0] for name in names}
    meta = {f"scrapy_webcrawl-{webcrawl.__version__}.dist-info", "EGG-INFO"}
    assert tops - meta == packages
    assert names - {name for name in names if name.partition("/")[0] in meta} == sources(packages)
    assert any(name.endswith(".lua") for name in names)


def test_scrapyd_finds_the_settings_of_an_egg(built: Callable[[str], zipfile.ZipFile]) -> None:
    entry_points = built("bdist_egg").read("EGG-INFO/entry_points.txt").decode()
    assert re.search(r"\[scrapy]\s+settings = settings\.production\s", entry_points)


def test_every_command_is_an_entry_point() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    commands = {path.stem for path in (CHECKOUT / "webcrawl" / "commands").glob("[!_]*.py")}
    expected = {name: f"webcrawl.entry:{name}" for name in commands}
    assert project["entry-points"]["scrapy.commands"] == expected


def test_top_level_packages_are_imported_from_the_checkout() -> None:
    """Scrapy puts the project last in sys.path, so an installed package of the same name would win."""
    program = (
        "from importlib.util import find_spec; from scrapy.utils.conf import init_env; init_env();"
        f"print(*(find_spec(name).origin for name in {sorted(PACKAGES)}), sep='\\n')"
    )
    # -P: keep the current folder out of sys.path, like the `scrapy` command
    found = run("-P", "-c", program).split()
    assert found == [str(CHECKOUT / name / "__init__.py") for name in sorted(PACKAGES)]
