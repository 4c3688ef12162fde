"""The servers of the benchmark of options, with two small sites in place of the documentation."""

from __future__ import annotations

import runpy
import shutil
import sqlite3
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import boto3
import psycopg
import pytest

from benchmarks import option_webs
from benchmarks.contender import Task
from benchmarks.option_table import AGAIN, HOSTS, OPTIONS, Option
from benchmarks.option_webs import Servers
from benchmarks.sites import Site

pytestmark = pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is not installed")

PAGES = 3


@pytest.fixture
def home() -> Iterator[Path]:
    # not in pytest's folder, which nginx may not read
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "servers").mkdir()
        yield Path(folder)


@pytest.fixture
def servers(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    sites = [
        Site(name, "", home / "sites" / name, f"127.0.1.{number}") for number, name in enumerate("abc", 1)
    ]
    for site in sites:
        site.folder.mkdir(parents=True)
        (site.folder / "index.html").write_text(f"<title>{site.name}</title><p>A page without links.")
    monkeypatch.setattr(option_webs, "SMALL", sites)
    with ExitStack() as stack:
        yield Servers(home / "servers", stack)


def task_of(servers: Servers, option: Option, home: Path) -> Task:
    home.mkdir()
    web = servers.web(option)
    return Task(web.seeds, 0, web.per_host, web.delay, home)


def settings_of(servers: Servers, option: Option, home: Path) -> dict[str, Any]:
    """The settings that the command of a crawl names."""
    task = task_of(servers, option, home)
    command = servers.command(option, task)
    assert f"PYTHONPATH={home}" in command and "SCRAPY_SETTINGS_MODULE=option_settings" in command
    return runpy.run_path(str(home / "option_settings.py"))


def answer(url: str, proxy: str | None = None) -> bytes:
    handler = urllib.request.ProxyHandler({"http": proxy} if proxy else {})
    with urllib.request.build_opener(handler).open(url, timeout=60) as response:
        assert response.status == 200
        return bytes(response.read())


def test_each_web_answers_and_is_started_once(servers: Servers) -> None:
    for name, number in (("no option", PAGES), ("CRAWL_MAX_PAGES, two hosts", 2)):
        web = servers.web(OPTIONS[name])
        assert servers.web(OPTIONS[name]) is web
        assert [answer(url)[:10] for url in web.seeds] == [
            b"<title>%c</" % ord(one) for one in "abc"[:number]
        ]
        assert b"<title>Start" in answer(web.start)
    secure = servers.web(OPTIONS["HTTPS"])
    assert secure.authority is not None and secure.authority.exists()
    assert all(url.startswith("https://") for url in secure.seeds)


def test_the_proxy_answers_for_a_page(servers: Servers, home: Path) -> None:
    option = OPTIONS["PROXIES"]
    (proxy,) = settings_of(servers, option, home / "task")["PROXIES"]
    web = servers.web(option)
    web.forget()
    assert b"<title>a" in answer(web.seeds[0], proxy)


def test_settings_are_filled_but_patterns_are_not(servers: Servers, home: Path) -> None:
    braces = Option("braces", {"URL_ALLOW": ["^a{2}$", *HOSTS], "STORE_URI": "file://{home}/warc"})
    settings = settings_of(servers, braces, home / "task")
    assert settings["URL_ALLOW"] == ["^a{2}$", *HOSTS]
    assert settings["STORE_URI"] == f"file://{home}/task/warc"
    for name in ("FRONTIER_HOT_URLS", "SIMHASH_DISTANCE"):
        (option,) = (one for one in OPTIONS.values() if one.name.startswith(name))
        assert settings_of(servers, option, home / name)[name] == option.settings[name]


def test_the_number_of_workers_and_further_words_are_in_the_command(servers: Servers, home: Path) -> None:
    option = OPTIONS["two workers"]
    assert servers.command(option, task_of(servers, option, home / "two"))[-7:-4] == ["workers", "2", "broad"]
    option = OPTIONS["feed of CSV"]
    command = servers.command(option, task_of(servers, option, home / "csv"))
    assert command[-2:] == ["-o", f"{home}/csv/pages.csv"]


def test_postgresql_has_a_new_database_for_each_crawl(servers: Servers, home: Path) -> None:
    option = OPTIONS["METADATA_URI in PostgreSQL"]
    if not servers.has(option):
        pytest.skip("PostgreSQL is not installed")
    uris = [settings_of(servers, option, home / name)["METADATA_URI"] for name in ("one", "two")]
    assert len({*uris}) == 2
    for uri in uris:
        with psycopg.connect(uri) as connection:
            assert connection.execute(
                "SELECT count(*) FROM pg_tables WHERE tablename = 'pages'"
            ).fetchone() == (0,)


def test_the_command_of_a_crawl_to_s3_names_a_running_server(servers: Servers, home: Path) -> None:
    option = OPTIONS["STORE_URI in S3"]
    if not servers.has(option):
        pytest.skip("SeaweedFS is not installed")
    command = servers.command(option, task_of(servers, option, home / "task"))
    said = dict(word.split("=", 1) for word in command if word.startswith("AWS_"))
    client = boto3.client(
        "s3",
        endpoint_url=said["AWS_ENDPOINT_URL"],
        aws_access_key_id=said["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=said["AWS_SECRET_ACCESS_KEY"],
        region_name=said["AWS_DEFAULT_REGION"],
    )
    assert "Buckets" in client.list_buckets()


def test_a_second_crawl_has_the_rows_and_no_engine_of_the_first(servers: Servers, home: Path) -> None:
    settings = settings_of(servers, OPTIONS[AGAIN], home / "task")
    assert settings["CRAWL_ID"] == "second"
    data = Path(settings["DATA_DIR"])
    with closing(sqlite3.connect(data / "metadata.db")) as database:
        assert database.execute("SELECT count(*) FROM pages").fetchone() == (PAGES,)
    assert not (data / "engine").exists()
