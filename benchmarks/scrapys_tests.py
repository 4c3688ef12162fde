"""Runs the tests of the installed Scrapy and scrapy-redis with the add-on in every crawler.

make scrapys-tests
docs/reference/scrapy-here.md lists the tests that fail, each with its reason. This script fails if any other test does.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.command import ROOT, command_line

FOLDER = ROOT / ".bench" / "scrapys-tests"
PAGE = ROOT / "docs" / "reference" / "scrapy-here.md"
MODULES = {
    "scrapy": ("crawl", "feedexport*", "pipeline*", "request_*", "signal*", "spider*"),
    "scrapy-redis": ("*",),
}
"""Distribution -> the modules of its tests that run, without "test_"."""
# what their tests import, besides what ours need
REQUIREMENTS = ("pytest-asyncio", "pytest-rerunfailures", "pyftpdlib", "sybil", "testfixtures", "psutil")
_PYTEST = (
    *("-m", "pytest", "-p", "benchmarks.scrapys_crawlers", "-p", "no:cacheprovider", "-W", "default"),
    *("--timeout=60", "-q", "--tb=short", "--continue-on-collection-errors"),
)
_LISTED = re.compile(r"`(test_\w+)\.py::(test_\w+)`")


def main(words: Sequence[str] | None = None) -> int:
    """Returns 0 if the tests that fail are those that the page lists, or if the tests cannot be had."""
    parser = command_line(__doc__, MODULES)
    parser.add_argument("--modules", help="run these modules instead, separated by commas: crawl,feedexport*")
    chosen = parser.parse_args(words)
    known: set[tuple[str, ...]] = set(
        _LISTED.findall(PAGE.read_text().partition("\n## Scrapy's own tests\n")[2])
    )
    surprises = 0
    for name in chosen.only:
        surprises += run(name, chosen.modules.split(",") if chosen.modules else MODULES[name], known)
    return 1 if surprises else 0


def run(name: str, modules: Sequence[str], known: set[tuple[str, ...]]) -> int:
    """Runs the tests of a distribution and prints the outcome; returns the number of failures that are not known."""
    wanted = f"{name}=={version(name)}"
    try:
        folder = unpacked(name, wanted)
        site = installed()
    except subprocess.CalledProcessError as error:
        print(f"Skipped the tests of {wanted}: they cannot be had:\n{error.stderr[-500:]}")
        return 0
    files = sorted({str(path) for module in modules for path in folder.glob(f"tests/test_{module}.py")})
    report = folder / "report.xml"
    report.unlink(missing_ok=True)
    # without a reactor, as crawls run here; only Scrapy's own conftest.py has the option
    reactorless = ["--reactor=none"] if name == "scrapy" else []
    path = os.pathsep.join(map(str, (site, ROOT)))
    subprocess.run(
        [sys.executable, *_PYTEST, *reactorless, f"--junitxml={report}", *files],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    return judge(wanted, report, known)


def judge(wanted: str, report: Path, known: set[tuple[str, ...]]) -> int:
    """Prints the figures of a report, and the failures that are not known; returns their number."""
    passed, failed = 0, list[tuple[str, str]]()
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            # a class name is tests.test_crawl.TestCrawl; of a module that cannot be imported there is only a name
            module = re.search(r"\btest_\w+", f"{case.get('classname')}.{case.get('name')}")
            failed.append((module[0] if module else "", case.get("name", "").partition("[")[0]))
        elif case.find("skipped") is None:
            passed += 1
    surprises = sorted(set(failed) - known)
    print(f"{wanted}: {passed} of {passed + len(failed)} tests passed.")
    if surprises:
        print(f"Not listed in {PAGE.relative_to(ROOT)}:", *map("::".join, surprises), sep="\n  ")
    return len(surprises)


def unpacked(name: str, wanted: str) -> Path:
    """Returns a folder with the tests of a source distribution, without its code: the installed code is tested."""
    folder = FOLDER / wanted
    if not folder.exists():
        archives = FOLDER / "archives" / wanted
        pip("download", "--no-deps", "--no-binary", name, "--dest", archives, wanted)
        with tarfile.open(next(archives.glob("*.tar.gz"))) as archive:
            for member in archive.getmembers():
                member.name = member.name.partition("/")[2]
                if member.name.startswith("tests/") or member.name in ("conftest.py", "pyproject.toml"):
                    archive.extract(member, folder, filter="data")
    return folder


def installed() -> Path:
    """Returns a folder with the packages that their tests need and ours do not."""
    site = FOLDER / "site"
    if not site.exists():
        pip("install", "--no-deps", "--target", site, *REQUIREMENTS)
    return site


def pip(verb: str, *words: str | Path) -> None:
    """Raises CalledProcessError, whose `stderr` says why."""
    command = [sys.executable, "-m", "pip", verb, "--quiet", "--disable-pip-version-check", *map(str, words)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)


if __name__ == "__main__":
    sys.exit(main())
