"""`make crawl` passes its options on unchanged and reports missing requirements."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.crawls import CHECKOUT, OF_MAKE

# stands for .venv/bin/python: prints its arguments, one a line
ECHO = '#!/bin/sh\nfor word; do printf "%s\\n" "$word"; done\n'


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the Makefile and the files it reads, with nothing installed."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(CHECKOUT / name, tmp_path)
    shutil.copytree(CHECKOUT / "requirements", tmp_path / "requirements")
    return tmp_path


@pytest.fixture
def installed(checkout: Path) -> Path:
    """The same with an up-to-date .venv whose python prints its arguments."""
    script(checkout / ".venv/bin/python", ECHO)
    for stamp in (".runtime", ".dev"):
        (checkout / ".venv" / stamp).touch()
    return checkout


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith((*OF_MAKE, "PYTHON"))
    }
    command = ["make", "--no-print-directory", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=180)


def arguments(folder: Path, *words: str) -> list[str]:
    """Returns the arguments that `make crawl WORDS...` passes to the python of .venv."""
    done = make(folder, "crawl", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_single_seed_starts_a_crawl_of_its_domain(installed: Path) -> None:
    expected = ["-m", "scrapy", "crawl", "broad", "-a", "seeds=https://example.org/", "-a", "scope=domain"]
    assert arguments(installed, "SEEDS=https://example.org/") == expected


@pytest.mark.parametrize(
    "seed",
    [
        "https://e.org/?a=1&b=2",
        "https://e.org/%7Euser/100%",
        "https://e.org/$HOME/$(x)/`id`/$$",
        "https://e.org/'single'/\"double\"",
        "https://e.org/*?x=[a-z];y=\\n#part",
    ],
)
def test_special_characters_of_a_url_are_kept(installed: Path, seed: str) -> None:
    assert f"seeds={seed}" in arguments(installed, f"SEEDS={seed}")


def test_several_seeds_are_joined_by_commas(installed: Path) -> None:
    assert "seeds=http://a/,http://b/" in arguments(installed, "SEEDS= http://a/  http://b/ ")


def test_every_option_is_passed_on(installed: Path) -> None:
    options = [
        "SEEDS=@list",
        "SCOPE=web",
        "DATA=my data",
        "MAX_PAGES=9",
        "WORKERS=3",
        "ARGS=-s 'A=b c' --nolog",
    ]
    assert arguments(installed, *options) == [
        *("-m", "scrapy", "workers", "3", "broad", "-a", "seeds=@list", "-a", "scope=web"),
        *("-s", "DATA_DIR=my data", "-s", "CRAWL_MAX_PAGES=9", "-s", "A=b c", "--nolog"),
    ]


def test_the_demo_runs_without_seeds_and_takes_the_same_options(installed: Path) -> None:
    assert arguments(installed) == ["-m", "webcrawl.demo"]
    assert arguments(installed, "WORKERS=2", "SCOPE=web", "DATA=d", "MAX_PAGES=9") == [
        *(
            "-m",
            "webcrawl.demo",
            "--workers",
            "2",
            "-a",
            "scope=web",
            "-s",
            "DATA_DIR=d",
            "-s",
            "CRAWL_MAX_PAGES=9",
        )
    ]


def test_a_misspelt_option_is_refused(installed: Path) -> None:
    done = make(installed, "crawl", "SEED=https://example.org/")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no option SEED; it has SEEDS" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("option", ["WORKERS=two", "MAX_PAGES=1e3", "WORKERS=-1", "MAX_PAGES=1 2"])
def test_a_wrong_number_is_refused_before_anything_is_installed(checkout: Path, option: str) -> None:
    done = make(checkout, "crawl", option)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"make crawl: {option}: a whole number is needed\n")
    assert not (checkout / ".venv").exists()


def test_changed_requirements_are_installed_again(installed: Path) -> None:
    stamp = (installed / ".venv/.runtime").stat().st_mtime_ns
    os.utime(installed / "requirements/crawler.txt", ns=(stamp + 10**9, stamp + 10**9))
    done = make(installed, "crawl")
    installing, *words = done.stdout.splitlines()
    assert installing == "Installing what the crawler needs into .venv: up to 80 MB to load ..."
    pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    assert words == [
        *(*pip, "--require-hashes", "-r", "requirements/build.txt"),
        *(*pip, "--require-hashes", "--no-build-isolation", "-r", "requirements/crawler.txt"),
        *(*pip, "--no-deps", "--no-build-isolation", "-e", "."),
        *("-m", "webcrawl.demo"),
    ]


def test_an_old_python_is_refused(checkout: Path) -> None:
    old = script(checkout / "old python", "#!/bin/sh\nexit 1\n")
    done = make(checkout, "test", f"PYTHON={old}")
    assert done.returncode != 0
    assert "webcrawl needs Python 3.11 or later" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_missing_venv_module_is_named(checkout: Path) -> None:
    bare = script(checkout / "python", '#!/bin/sh\ncase "$2" in *version_info*) exit 0;; *) exit 1;; esac\n')
    done = make(checkout, "crawl", f"PYTHON={bare}")
    assert done.returncode != 0
    assert "venv module" in done.stderr


def test_make_without_a_target_lists_the_targets(checkout: Path) -> None:
    done = make(checkout)
    assert all(f"make {target}" in done.stdout for target in ("crawl", "test", "check", "format", "clean"))
