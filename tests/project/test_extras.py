"""An extra brings what its name says, and what needs it says in one sentence how to get it."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator

import pytest
from packaging.requirements import Requirement

from tests.cases import cases
from tests.crawls import CHECKOUT
from tests.forks import forks_of

PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
EXTRAS = {
    name: [Requirement(line) for line in lines] for name, lines in PROJECT["optional-dependencies"].items()
}
# extra -> what to do with its library missing: the module to hide, and a program
USES = {
    "postgresql": ("psycopg", "from webcrawl.stores.database import Database; Database('postgresql://db/x')"),
    "parquet": ("pyarrow", "from webcrawl.results.exports.parts import ParquetPart; ParquetPart('x')"),
    "lake": ("pyiceberg", "from webcrawl.lake.catalogue import pyiceberg; pyiceberg()"),
    "search": ("tantivy", "from webcrawl.search.schema import tantivy; tantivy()"),
    "mine": ("duckdb", "from webcrawl.mining.libraries import check_libraries; check_libraries()"),
    "clusters": ("rensa", "from webcrawl.clusters.minhash import rensa; rensa()"),
    "graph": ("duckdb", "from webcrawl.graph.libraries import duckdb; duckdb()"),
    "spark": ("pyspark", "from webcrawl.graph.spark.session import pyspark; pyspark()"),
    "metrics": (
        "prometheus_client",
        "from webcrawl.config.libraries import prometheus_client; prometheus_client()",
    ),
    "traces": (
        "opentelemetry.exporter",
        "from webcrawl.config.libraries import opentelemetry; opentelemetry()",
    ),
    "dashboard": ("starlette", "from webcrawl.commands.dashboard import check_libraries; check_libraries()"),
    "service": ("starlette", "from webcrawl.commands.serve import check_libraries; check_libraries()"),
    "client": ("httpx", "import webcrawl.client"),
    "mcp": ("mcp", "from webcrawl.commands.mcp import check_libraries; check_libraries()"),
    "alarms": ("apprise", "from webcrawl.alarms.targets import Targets; Targets([])"),
    "heif": ("pillow_heif", "from webcrawl.documents.mime.image import _heif; _heif()"),
    "urlfrontier": ("h2", "from webcrawl.commands.urlfrontier import check_libraries; check_libraries()"),
    "jobs": ("cronsim", "from webcrawl.jobs.schedule import Schedule; Schedule('0 0 * * *')"),
    "impersonate": (
        "curl_cffi",
        "from webcrawl.crawler.download.curl import CurlDownloadHandler as Handler; Handler(None, None)",
    ),
    "render": (
        "scrapy_playwright",
        "from webcrawl.crawler.session import Session; Session._make_renderer(None)",
    ),
}
READERS = {"images", "media", "documents", "languages"}
"""Extras without which a crawl stores documents that it does not read; see tests/crawl/test_unread.py."""
LARGE = {"spark"}
"""Extras that `all` leaves out: Spark takes 500 MB, and Java."""
IMPORTS = """
import sys
from scrapy.exceptions import NotConfigured
from webcrawl.errors import CrawlError
"""
PROGRAM = """
sys.modules[{module!r}] = None
try:
    {use}
except (CrawlError, NotConfigured) as error:
    print(error)
"""


def test_every_extra_of_users_has_a_use() -> None:
    assert set(EXTRAS) - {"dev", "docs", "all"} == set(USES) | {"http2"} | READERS
    assert EXTRAS["http2"] == EXTRAS["impersonate"]


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[str], str]]:
    with forks_of(IMPORTS) as run:
        yield run


@pytest.mark.parametrize("extra", USES)
def test_a_missing_extra_is_one_sentence(extra: str, run: Callable[[str], str]) -> None:
    module, use = USES[extra]
    printed = run(PROGRAM.format(module=module, use=use))
    library = EXTRAS[extra][0].name
    requirements = sorted(str(requirement) for requirement in EXTRAS[extra])
    command = shlex.join([sys.executable, "-m", "pip", "install", *requirements])
    assert re.fullmatch(rf"[\w -]+ needs {library}: {re.escape(command)}\n", printed), printed


def test_all_brings_every_extra_of_users_but_large_ones() -> None:
    assert {every.name for every in EXTRAS["all"]} == {PROJECT["name"]}
    named = {name for every in EXTRAS["all"] for name in every.extras}
    assert libraries(named) == libraries((set(USES) | READERS) - LARGE)


def test_the_environment_of_the_tests_has_every_extra() -> None:
    (every,) = (requirement for requirement in EXTRAS["dev"] if requirement.name == PROJECT["name"])
    assert every.extras == {"all"}


def libraries(extras: Iterable[str]) -> set[str]:
    return {requirement.name for extra in extras for requirement in EXTRAS[extra]}


def test_every_extra_is_explained() -> None:
    page = (CHECKOUT / "docs" / "installing.md").read_text()
    table = page.partition("| extra |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == set(EXTRAS) - {"dev"}


def test_no_command_depends_on_a_name_that_is_not_registered() -> None:
    """The package is not on an index: pages and messages name libraries, or a wheel of the checkout."""
    sources = [
        *CHECKOUT.glob("*.md"),
        *(path for path in (CHECKOUT / "docs").rglob("*.md") if not path.name.startswith("history")),
        *(CHECKOUT / "webcrawl").rglob("*.py"),
        *(CHECKOUT / "webcrawl" / "new" / "template").rglob("*.tmpl"),
    ]
    by_name = re.compile(r"pip\S* install [^`\n]*scrapy-webcrawl")
    assert [str(path) for path in sources if by_name.search(path.read_text())] == []


def test_libraries_that_pages_install_are_those_of_extras() -> None:
    named = {
        name
        for path in (CHECKOUT / "docs" / "guide").rglob("*.md")
        for words in re.findall(r"^pip install ([^-\n]+)$", path.read_text(), re.MULTILINE)
        for name in shlex.split(words)
        if "webcrawl" not in name
    }
    known = {
        f"{library.name}[{','.join(library.extras)}]" if library.extras else library.name
        for libraries in EXTRAS.values()
        for library in libraries
    }
    assert {"tantivy", "duckdb"} <= named
    assert named <= known


@cases("python", ["3.11", "3.12", "3.13", "3.14"])
@cases(
    ("platform", "machine"),
    [
        ("linux", "x86_64"),
        ("linux", "aarch64"),
        ("darwin", "arm64"),
        ("darwin", "x86_64"),
        ("win32", "AMD64"),
    ],
)
def test_one_language_detector_is_installed_on_each_platform(
    python: str, platform: str, machine: str
) -> None:
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]
    here = {"python_version": python, "sys_platform": platform, "platform_machine": machine, "extra": ""}
    detectors = EXTRAS["languages"]
    assert sum(detector.marker is not None and detector.marker.evaluate(here) for detector in detectors) == 1
