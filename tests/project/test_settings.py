"""Production settings read the environment; wrong values and shadowed packages are reported at start."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.extensions.remote_control import RemoteControl
from scrapy.extensions.telnet import TelnetConsole
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from settings import base
from tests import crawls
from tests.cases import cases
from tests.crawls import CHECKOUT
from webcrawl.commands.crawl import check_packages
from webcrawl.config import DEFAULTS
from webcrawl.crawler.crawl_settings import completed
from webcrawl.crawler.report.progress import Progress
from webcrawl.crawler.session import Session
from webcrawl.errors import ConfigurationError
from webcrawl.pipelines.near_duplicates import NearDuplicatesPipeline
from webcrawl.spiders.broad import Broad

NUMERIC = [name for name, value in DEFAULTS.items() if type(value) in (int, float)]
ENVIRONMENT = {
    "REDIS_URL": "redis://engine.example:6379/3",
    "STORE_URI": "s3://bucket/prefix",
    "METADATA_URI": "postgresql+psycopg://crawler@db.example/crawl",
    "DATA_DIR": "/srv/crawl",
    "USER_AGENT": "examplebot/1.0 (+https://example.com/bot)",
}


def build(**changes: Any) -> None:
    """Builds the components that read settings, like a crawl before it starts."""
    everything = {name: value for name, value in vars(base).items() if name.isupper()}
    crawler = get_crawler(Broad, {**everything, "PROGRESS": "plain", **changes})
    Session.of(crawler)
    NearDuplicatesPipeline.from_crawler(crawler)
    Progress.from_crawler(crawler)


def scrapy(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the `scrapy` command with sys.path as the installed script has it, without the current folder."""
    clean = {
        name: value for name, value in os.environ.items() if name not in (*ENVIRONMENT, "SCRAPY_PROJECT")
    }
    program = "import sys; from scrapy.cmdline import execute; sys.argv[0] = 'scrapy'; sys.exit(execute())"
    command = [sys.executable, "-P", "-c", program, *words]
    return subprocess.run(
        command, cwd=CHECKOUT, env={**clean, **environment}, capture_output=True, text=True, timeout=180
    )


def production(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> dict[str, Any]:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return runpy.run_module("settings.production")


def test_production_reads_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    module = production(monkeypatch, ENVIRONMENT)
    assert {name: module[name] for name in ENVIRONMENT} == ENVIRONMENT


def test_production_without_an_environment_equals_base(monkeypatch: pytest.MonkeyPatch) -> None:
    module = production(monkeypatch, {})
    assert not ENVIRONMENT.keys() & (module.keys() - vars(base).keys())


def test_production_changes_only_progress_and_log_level(monkeypatch: pytest.MonkeyPatch) -> None:
    module = production(monkeypatch, {})
    given = {name: value for name, value in vars(base).items() if name.isupper()}
    changed = {
        name for name in module if name.isupper() and (name not in given or module[name] != given[name])
    }
    assert changed == {"PROGRESS", "PROGRESS_INTERVAL", "LOG_LEVEL"}
    assert module.keys() >= given.keys()


def test_scrapy_project_selects_production() -> None:
    done = scrapy("settings", "--get", "REDIS_URL", SCRAPY_PROJECT="production", REDIS_URL="redis://x/1")
    assert done.stdout.strip() == "redis://x/1"
    assert scrapy("settings", "--get", "REDIS_URL", REDIS_URL="redis://x/1").stdout.strip() == "None"


def test_base_names_the_addon_and_sets_no_default() -> None:
    """A user may assign more."""
    assert base.ADDONS == {"webcrawl.addon.WebcrawlAddon": 100}
    assert not {name for name in vars(base) if name.isupper()} & {"SCHEDULER", "DOWNLOADER", "ROBOTSTXT_OBEY"}


def test_the_settings_of_the_project_are_accepted() -> None:
    build()


@cases("name", NUMERIC)
@cases("value", ["many", "", "-1", "nan", "inf", [1]])
def test_a_wrong_number_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"\b{name}\b"):
        build(**{name: value})


@cases(
    ("name", "value"),
    [
        ("ALLOWED_DOMAINS", ["https://example.org"]),
        ("ALLOWED_DOMAINS", "@/no/such/file"),
        ("ALLOWED_NETWORKS", ["10.0.0.0/99"]),
        ("ANCHOR_WORDS", {"(": 1}),
        ("CRAWL_ID", "a/b"),
        ("DENIED_DOMAINS", ["example.org/a"]),
        ("DNS_SERVERS", ["resolver.example"]),
        ("DOWNLOAD_SLOTS", {"example.org": {"delay": -1}}),
        ("LINK_RULES", [("a", "(")]),
        ("METADATA_URI", "mysql://server/database"),
        ("NEAR_DUPLICATES", "forget"),
        ("POLITENESS_ADDRESS_EXCEPT", ["192.0.2.0/33"]),
        ("POLITENESS_ADDRESS_EXCEPT", "@/no/such/file"),
        ("PRIORITIZERS", {"webcrawl.policies.terms.NoTerm": 1}),
        ("PRIORITIZERS", {"webcrawl.policies.terms.Length": "first"}),
        ("PRIORITIZERS", {"webcrawl.urls.scope.Scope": 1}),
        ("PROGRESS", "loud"),
        ("SEEN_SET", "some"),
        ("STORE_URI", "ftp://server/folder"),
        ("URL_ALLOW", ["("]),
        ("URL_DENY", [")"]),
        ("URL_FILTERS", {"webcrawl.urls.filters.NoFilter": 1}),
        ("URL_FILTERS", {"webcrawl.urls.scope.Scope": 1}),
        ("URL_LEVELS", [("a", 9)]),
    ],
)
def test_a_wrong_value_is_named(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"\b{name}\b"):
        build(**{name: value})


def test_a_data_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(ConfigurationError, match="DATA_DIR"):
        build(DATA_DIR=str(tmp_path / "data"))


@pytest.mark.parametrize("setting", ["FRONTIER_SHARDS=0", "SIMHASH_DISTANCE=16", "PROGRESS=loud"])
def test_a_crawl_with_a_wrong_setting_ends_with_one_line(setting: str, tmp_path: Path) -> None:
    options = ["-a", "seeds=http://127.0.0.1:1/", "-s", f"DATA_DIR={tmp_path / 'data'}", "-s", setting]
    done = crawls.scrapy("crawl", "broad", *options, status=2)
    assert re.fullmatch(rf"scrapy crawl: {setting.partition('=')[0]} .*\n", done.stderr)
    assert not (tmp_path / "data" / "engine").exists()


def hide(name: str, folder: Path) -> str:
    """Makes a package of this name in a folder; returns what is said of it."""
    hiding = folder / name
    hiding.mkdir(parents=True)
    # enough modules for Scrapy to get as far as the check
    for module in ("__init__", "local", "dns", "checksum"):
        (hiding / f"{module}.py").write_text("COMMANDS_MODULE = 'webcrawl.commands'\n")
    return f"the package {name!r} is taken from {hiding / '__init__.py'}, not from {CHECKOUT}"


def test_a_package_that_shadows_ours_is_named(tmp_path: Path) -> None:
    message = hide("settings", tmp_path / "site")
    options = ["-a", "seeds=http://127.0.0.1:1/", "-s", f"DATA_DIR={tmp_path / 'data'}"]
    done = scrapy("crawl", "broad", *options, PYTHONPATH=str(tmp_path / "site"))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["settings", "spiders", "middlewares", "pipelines"])
def test_each_package_that_shadows_ours_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = hide(name, tmp_path / "site")
    monkeypatch.chdir(CHECKOUT)
    monkeypatch.syspath_prepend(tmp_path / "site")
    for package in ("settings", "spiders", "middlewares", "pipelines"):
        monkeypatch.delitem(sys.modules, package, raising=False)
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        check_packages()


@pytest.mark.parametrize("extension", [RemoteControl, TelnetConsole])
def test_nothing_listens_for_commands_when_a_spider_replaces_extensions(extension: Any) -> None:
    crawler = Crawler(Spider, completed(Settings({"ADDONS": base.ADDONS, "EXTENSIONS": {}})))
    with pytest.raises(NotConfigured):
        extension.from_crawler(crawler)
