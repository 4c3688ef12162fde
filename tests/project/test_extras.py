"""An extra brings what its name says, and what needs it says in one sentence how to get it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator

import pytest
from packaging.requirements import Requirement

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
    "search": ("tantivy", "from webcrawl.search.schema import tantivy; tantivy()"),
    "mine": ("duckdb", "from webcrawl.mining.libraries import check_libraries; check_libraries()"),
    "graph": ("duckdb", "from webcrawl.graph.libraries import duckdb; duckdb()"),
    "metrics": (
        "prometheus_client",
        "from webcrawl.metrics.library import prometheus_client; prometheus_client()",
    ),
    "traces": (
        "opentelemetry.exporter",
        "from webcrawl.metrics.library import opentelemetry; opentelemetry()",
    ),
    "dashboard": ("starlette", "from webcrawl.web.libraries import check_libraries; check_libraries()"),
    "alarms": ("apprise", "from webcrawl.alarms.targets import Targets; Targets([])"),
    "heif": ("pillow_heif", "from webcrawl.documents.mime.image import _heif; _heif()"),
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
    assert set(EXTRAS) - {"dev", "docs", "all"} == set(USES) | {"http2"}
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
    expected = rf"[\w-]+ needs {library}: pip install 'scrapy-webcrawl\[{extra}\]'\n"
    assert re.fullmatch(expected, printed), printed


def test_all_brings_every_extra_of_users() -> None:
    (every,) = EXTRAS["all"]
    assert every.name == PROJECT["name"]
    assert libraries(every.extras) == libraries(USES)


def test_the_environment_of_the_tests_has_every_extra() -> None:
    assert libraries(USES) <= libraries(["dev"])


def libraries(extras: Iterable[str]) -> set[str]:
    return {requirement.name for extra in extras for requirement in EXTRAS[extra]}


def test_every_extra_is_explained() -> None:
    page = (CHECKOUT / "docs" / "installing.md").read_text()
    table = page.partition("| extra |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == set(EXTRAS) - {"dev"}


def test_documented_extras_exist() -> None:
    sources = [
        *CHECKOUT.glob("*.md"),
        *(CHECKOUT / "docs").rglob("*.md"),
        *(CHECKOUT / "webcrawl").rglob("*.py"),
    ]
    named = {
        name
        for path in sources
        for names in re.findall(r"pip install ['\"][\w-]+\[([\w,]+)]", path.read_text())
        for name in names.split(",")
    }
    assert {"postgresql", "parquet", "search", "heif", "render"} <= named <= set(EXTRAS) | {"binary", "extra"}


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize(
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
    installed = {
        requirement.name
        for requirement in map(Requirement, PROJECT["dependencies"])
        if requirement.marker is None or requirement.marker.evaluate(here)
    }
    assert len(installed & {"pycld2", "py3langid"}) == 1
