"""The wheel in an empty environment: projects outside the checkout crawl, are tested and are deployed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawls import CHECKOUT, NO_NAMES, OF_MAKE
from tests.project.test_scrapyd import bare_python, form, running_node
from tests.web import LocalWeb

BUILT_FROM = ("webcrawl", "pyproject.toml", "setup.py", "README.md", "LICENSE")
FLAT = """
import scrapy

class Theirs(scrapy.Spider):
    name = "theirs"
"""
SETTINGS = 'SPIDER_MODULES = ["spiders"]\n'


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    for name in BUILT_FROM:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder)
    run(sys.executable, "setup.py", "-q", "bdist_wheel", folder=folder)
    (made,) = (folder / "dist").iterdir()
    return made


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that sees the installed libraries and the wheel, but not the checkout."""
    python = bare_python(tmp_path_factory.mktemp("installed"))
    pip = ["-m", "pip", "--python", str(python), "install", "--no-index", "--no-deps"]
    run(sys.executable, *pip, "--quiet", "--disable-pip-version-check", str(wheel), folder=wheel.parent)
    return python


@pytest.fixture(scope="module")
def project(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects") / "shop"
    assert "make crawl" in run(python.parent / "webcrawl", "new", folder, folder=folder.parent)
    # as `make` would install it
    (folder / ".venv").symlink_to(python.parent.parent)
    (folder / ".venv" / ".installed").touch()
    return folder


def run(*words: str | Path, folder: Path, code: int = 0) -> str:
    """Runs a program outside the checkout, which must exit with `code`; returns stdout, or stderr of a failure."""
    ours = (*OF_MAKE, "REDIS_", "STORE_", "METADATA_", "SCRAPY_", "PYTHON")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else done.stdout


def scrapy(python: Path, *words: str, folder: Path, code: int = 0) -> str:
    """Runs the `scrapy` command as installed, without the current folder in sys.path."""
    program = "import sys; from scrapy.cmdline import execute; sys.argv[0] = 'scrapy'; sys.exit(execute())"
    return run(python, "-P", "-c", program, *words, folder=folder, code=code)


def test_the_wheel_has_one_package_at_the_top_level(wheel: Path) -> None:
    assert wheel.name.startswith("scrapy_webcrawl-")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"webcrawl"}


def test_a_new_project_passes_its_tests(python: Path, project: Path) -> None:
    assert "webcrawl" not in [path.name for path in project.iterdir()]
    where = run(python, "-c", "import webcrawl; print(webcrawl.__file__)", folder=project)
    assert Path(where).is_relative_to(python.parent.parent)
    assert "1 passed" in run("make", "test", folder=project)


def test_a_new_project_crawls_the_demo(python: Path, project: Path) -> None:
    run("make", "crawl", f"ARGS=-s DNS_SERVERS={NO_NAMES} -s CRAWL_MAX_PAGES=20", folder=project)
    assert json.loads((project / "data" / "demo" / "summary.json").read_text())["pages"] == 20
    assert any((project / "data" / "demo" / "warc").iterdir())
    seeds = run("make", "-n", "crawl", "SEEDS=https://example.org/", folder=project)
    assert '-m scrapy crawl headlines -a "seeds=$SEEDS"' in seeds
    frontier = scrapy(python, "status", "--json", "-s", "DATA_DIR=data/demo", folder=project)
    assert json.loads(frontier)["crawl"] == "broad"


def test_a_new_project_has_its_spiders_and_ours(python: Path, project: Path) -> None:
    names = scrapy(python, "list", folder=project).split()
    assert names == ["broad", "headlines", "linkcheck", "live", "mirror", "monitor", "sitemap"]
    assert (
        scrapy(python, "settings", "--get", "SCHEDULER", folder=project).strip().endswith("FrontierScheduler")
    )


@pytest.mark.slow
def test_a_new_project_is_deployed_to_scrapyd(
    python: Path, project: Path, tmp_path: Path, local_web: Callable[..., LocalWeb]
) -> None:
    web = local_web("127.0.1.1")
    web.put("127.0.1.1", "/", "<h1>Home</h1>")
    egg = tmp_path / "shop.egg"
    run(python, "-m", "scrapyd_client.deploy", "--build-egg", str(egg), folder=project)
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(egg).namelist()}
    assert tops == {"settings", "spiders", "middlewares", "pipelines", "EGG-INFO"}
    with running_node(tmp_path, python) as node:
        assert node.ask("addversion", *form(egg, project="shop", version="1"))["spiders"] == 6
        data = tmp_path / "data"
        home = web.url("127.0.1.1")
        node.crawl(home, project="shop", spider="headlines", DATA_DIR=data, DNS_SERVERS=NO_NAMES)
        assert json.loads((data / "summary.json").read_text())["pages"] == 1, node.log()


def test_an_existing_project_takes_the_addon(
    python: Path, tmp_path: Path, local_web: Callable[..., LocalWeb]
) -> None:
    """As `scrapy startproject` makes it, with one line changed."""
    web = local_web("127.0.1.1")
    web.put("127.0.1.1", "/", "<h1>Home</h1><a href=/next>next</a>")
    web.put("127.0.1.1", "/next", "<h1>Next</h1>")
    scrapy(python, "startproject", "stock", folder=tmp_path)
    folder = tmp_path / "stock"
    settings = folder / "stock" / "settings.py"
    text = settings.read_text()
    assert "ADDONS = {}" in text
    settings.write_text(text.replace("ADDONS = {}", 'ADDONS = {"webcrawl.addon.WebcrawlAddon": 100}'))
    options = ["-s", f"DNS_SERVERS={NO_NAMES}", "-s", "DOWNLOAD_DELAY=0"]
    scrapy(python, "crawl", "broad", "-a", f"seeds={web.url('127.0.1.1')}", *options, folder=folder)
    assert json.loads((folder / "data" / "summary.json").read_text())["pages"] == 2
    assert any((folder / "data" / "warc").iterdir())


def test_another_flat_project_is_as_without_webcrawl(python: Path, tmp_path: Path) -> None:
    for name, text in {"spiders/theirs.py": FLAT, "spiders/__init__.py": "", "settings.py": SETTINGS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = settings\n")
    assert scrapy(python, "list", folder=tmp_path).split() == ["theirs"]
    assert "--stop-at-eof" not in scrapy(python, "crawl", "--help", folder=tmp_path)
    assert scrapy(python, "status", folder=tmp_path, code=2) == (
        "scrapy status: this project does not use webcrawl: "
        'add ADDONS = {"webcrawl.addon.WebcrawlAddon": 100} to its settings\n'
    )


def test_a_command_outside_a_project_says_so(python: Path, tmp_path: Path) -> None:
    assert "there is no project here" in scrapy(python, "status", folder=tmp_path, code=2)
