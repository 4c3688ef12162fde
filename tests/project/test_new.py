"""`webcrawl new` creates a project, or says in one sentence why it cannot."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from tests.crawls import CHECKOUT
from webcrawl.new import main


def files_of(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_project_has_its_folders_and_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", str(tmp_path / "deep" / "book-shop")]) == 0
    folder = tmp_path / "deep" / "book-shop"
    folders = ("settings", "spiders", "middlewares", "pipelines")
    expected = {f"{name}/__init__.py" for name in folders} | {
        "scrapy.cfg",
        "setup.py",
        "Makefile",
        "README.md",
    }
    assert expected <= files_of(folder)
    texts = {name: (folder / name).read_text() for name in files_of(folder)}
    assert [name for name, text in texts.items() if "{{" in text] == []
    assert 'BOT_NAME = "book-shop"' in texts["settings/base.py"]
    assert "project = book-shop" in texts["scrapy.cfg"]
    for name, text in texts.items():
        if name.endswith(".py"):
            ast.parse(text)
    assert f"cd {folder}" in capsys.readouterr().out


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    assert main(["new", str(folder)]) == 0
    assert (folder / "scrapy.cfg").exists()


def test_a_folder_with_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "mine").touch()
    assert main(["new", str(folder)]) == 2
    assert capsys.readouterr().err == f"webcrawl new: the folder '{folder}' is not empty: name a new one\n"
    assert files_of(folder) == {"mine"}


@pytest.mark.parametrize(
    "name", ["my shop", "1shop", "-shop", "shop!", "sh\N{LATIN SMALL LETTER O WITH STROKE}p"]
)
def test_a_bad_name_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", str(tmp_path / name)]) == 2
    assert f"webcrawl new: {name!r} cannot be the name of a project: use letters" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("json", "a module of Python"),
        ("Xml", "a module of Python"),
        ("scrapy", "the package Scrapy"),
        ("yaml", "the package PyYAML"),
        ("twisted", "the package Twisted"),
    ],
)
def test_the_name_of_a_module_is_refused(
    name: str, taken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", str(tmp_path / name)]) == 2
    assert f"{name!r} cannot be the name of a project: {taken} is" in capsys.readouterr().err.replace(
        "scrapy is", "Scrapy is"
    )
    assert not (tmp_path / name).exists()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    places = {tmp_path / "file": "File exists", tmp_path / "file" / "shop": "Not a directory"}
    if os.geteuid():
        (tmp_path / "locked").mkdir(mode=0o500)
        places[tmp_path / "locked" / "shop"] = "Permission denied"
    for place, reason in places.items():
        assert main(["new", str(place)]) == 2
        assert capsys.readouterr().err == f"webcrawl new: cannot write to '{place}' ({reason})\n"


@pytest.mark.parametrize("name", ["settings/local.py", "settings/production.py", "scrapy.cfg"])
def test_the_checkout_is_such_a_project(name: str) -> None:
    """It differs in its name, and in what its own lint needs."""
    template = (CHECKOUT / "webcrawl" / "new" / "template" / f"{name}.tmpl").read_text()
    template = template.replace("{{name}}", "webcrawl").replace("  # noqa: F403", "")
    assert (CHECKOUT / name).read_text().split() == template.split()
