"""A real scrapyd runs the project from its zipped egg, on a Python with only the dependencies installed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
import venv
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import scrapy
from scrapy.settings import Settings

from tests.crawls import CHECKOUT
from tests.ports import free_ports
from tests.web import LocalWeb, generated_web
from webcrawl.jobs.claims import IterationClaims
from webcrawl.jobs.crawls import JobCrawls
from webcrawl.jobs.daemon import Starting
from webcrawl.jobs.records import Iteration, IterationState
from webcrawl.jobs.retention import Retention
from webcrawl.jobs.scheduler import Scheduler, SystemClock
from webcrawl.jobs.store import JobStore
from webcrawl.jobs.sweeper import Sweeper
from webcrawl.jobs.telling import Telling
from webcrawl.jobs.watching import Watching

BUILT_FROM = (
    *("webcrawl", "spiders", "middlewares", "pipelines", "settings"),
    *("scrapy.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE"),
)
CONFIGURATION = "[scrapyd]\nbind_address = 127.0.0.1\nhttp_port = {port}\npoll_interval = 0.1\n"


@dataclass(frozen=True)
class Node:
    """A running scrapyd: its folder, the Python it runs on, its environment and its address."""

    folder: Path
    python: Path
    environment: dict[str, str]
    url: str

    def ask(self, command: str, body: bytes | None = None, kind: str = "", **query: str) -> dict[str, Any]:
        """Sends an API request, a POST if there is a body; returns the response, whose status must be "ok"."""
        request = urllib.request.Request(f"{self.url}/{command}.json?{urlencode(query)}", body)
        if kind:
            request.add_header("Content-Type", kind)
        with urllib.request.urlopen(request, timeout=60) as reply:
            answer = dict(json.load(reply))
        assert answer["status"] == "ok", answer
        return answer

    def crawl(
        self, seed: str, *, project: str = "webcrawl", spider: str = "broad", **settings: object
    ) -> None:
        """Schedules a crawl and waits for its end."""
        fields = [("project", project), ("spider", spider), ("seeds", seed), ("scope", "host")]
        fields += [("setting", f"{name}={value}") for name, value in settings.items()]
        job = self.ask("schedule", urlencode(fields).encode())["jobid"]
        deadline = time.monotonic() + 60
        while job not in [entry["id"] for entry in self.ask("listjobs", project=project)["finished"]]:
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)

    def log(self) -> str:
        """Returns the last output of scrapyd and its jobs."""
        paths = [self.folder / "output", *self.folder.glob("logs/**/*.log")]
        return "\n".join(path.read_text(errors="replace")[-4000:] for path in paths if path.is_file())


@pytest.fixture(scope="module")
def egg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The egg as `scrapyd-deploy` builds it, from a copy of the sources."""
    folder = tmp_path_factory.mktemp("sources")
    for name in BUILT_FROM:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder)
    words = [sys.executable, "-m", "scrapyd_client.deploy", "--build-egg", "made.egg"]
    compiling = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(words, cwd=folder, env=compiling, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "made.egg"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, egg: Path) -> Iterator[Node]:
    """A node with the egg deployed."""
    folder = tmp_path_factory.mktemp("node")
    with running_node(folder, bare_python(folder)) as node:
        added = node.ask("addversion", *form(egg, project="webcrawl", version="1"))
        assert added["spiders"] >= 1
        yield node


@contextmanager
def running_node(folder: Path, python: Path) -> Iterator[Node]:
    """A scrapyd in this folder, without a project."""
    (port,) = free_ports(1)
    (folder / "scrapyd.conf").write_text(CONFIGURATION.format(port=port))
    ours = ("REDIS_", "STORE_", "METADATA_", "SCRAPY_", "PYTHON", "DATA_DIR")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    node = Node(folder, python, environment, f"http://127.0.0.1:{port}")
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [node.python, "-m", "scrapyd"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + 60
        while not answers(port):
            assert process.poll() is None and time.monotonic() < deadline, node.log()
            time.sleep(0.05)
        yield node
    finally:
        process.terminate()
        process.wait(60)


def bare_python(folder: Path) -> Path:
    """Creates a Python that sees the installed libraries, but not the checkout installed with them.

    Python adds the folder named in a .pth file to sys.path, but ignores the .pth files in that folder.
    """
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder / "venv")
    (packages,) = (folder / "venv/lib").glob("python*/site-packages")
    (packages / "libraries.pth").write_text(str(Path(scrapy.__file__).parent.parent) + "\n")
    return folder / "venv/bin/python"


def answers(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def form(egg: Path, **fields: str) -> tuple[bytes, str]:
    """Encodes a multipart form with a file; returns body and content type."""
    parts = [
        *((f'name="{name}"', value.encode()) for name, value in fields.items()),
        ('name="egg"; filename="made.egg"', egg.read_bytes()),
    ]
    lines = [
        b"--limit\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n" % (a.encode(), b) for a, b in parts
    ]
    return b"".join([*lines, b"--limit--\r\n"]), "multipart/form-data; boundary=limit"


@pytest.fixture
def site(local_web: Callable[..., LocalWeb]) -> tuple[str, set[str]]:
    """Publishes a site; returns its home page and all URLs reachable from it."""
    web = local_web("127.0.1.1")
    graph = generated_web(5, web, pages=15)
    home = web.url("127.0.1.1")
    return home, graph.reachable(home)


@pytest.fixture
def closed_port() -> str:
    """An address without a name server, so that no query leaves this machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
        unused.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{unused.getsockname()[1]}"


def crawled(data: Path) -> set[str]:
    with closing(sqlite3.connect(data / "metadata.db")) as database:
        return {url for (url,) in database.execute("SELECT url FROM pages WHERE status = 200")}


def test_the_node_has_the_project_from_its_egg_alone(node: Node, egg: Path) -> None:
    words = [node.python, "-c", "import webcrawl.errors; print(webcrawl.errors.__file__)"]
    done = subprocess.run(words, cwd=node.folder, env=node.environment, capture_output=True, timeout=60)
    assert b"ModuleNotFoundError" in done.stderr
    (deployed,) = (node.folder / "eggs/webcrawl").iterdir()
    assert deployed.is_file() and deployed.read_bytes() == egg.read_bytes()
    # to compile the modules takes a job most of a second
    path = {**node.environment, "PYTHONPATH": str(deployed)}
    done = subprocess.run(words, cwd=node.folder, env=path, capture_output=True, timeout=60, check=True)
    assert done.stdout.decode().strip() == f"{deployed}/webcrawl/errors.pyc"
    assert any(name.endswith(".lua") for name in zipfile.ZipFile(deployed).namelist())


def test_the_spiders_of_the_egg_are_listed(node: Node) -> None:
    assert "broad" in node.ask("listspiders", project="webcrawl")["spiders"]


@pytest.mark.slow
def test_a_job_crawls_with_an_embedded_engine(
    node: Node, site: tuple[str, set[str]], tmp_path: Path, closed_port: str
) -> None:
    """The keeper process of the engine runs from the zipped egg too."""
    home, reachable = site
    data = tmp_path / "data"
    node.crawl(home, DATA_DIR=data, DOWNLOAD_DELAY=0, DNS_SERVERS=closed_port)
    assert (data / "summary.json").exists(), node.log()
    assert crawled(data) == reachable
    summary = json.loads((data / "summary.json").read_text())
    assert (summary["pages"], summary["finish_reason"]) == (len(reachable), "finished")
    assert any((data / "warc").glob("*.warc.gz"))
    assert (data / "engine/valkey.log").exists()


@pytest.mark.slow
def test_a_job_crawls_with_a_shared_engine(
    node: Node, site: tuple[str, set[str]], tmp_path: Path, closed_port: str, redis_url: str, valkey: Any
) -> None:
    home, reachable = site
    data = tmp_path / "data"
    node.crawl(home, DATA_DIR=data, DOWNLOAD_DELAY=0, DNS_SERVERS=closed_port, REDIS_URL=redis_url)
    assert (data / "summary.json").exists(), node.log()
    assert crawled(data) == reachable
    assert valkey.dbsize() > 0
    assert not (data / "engine").exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_runs_on_two_nodes(
    node: Node,
    egg: Path,
    site: tuple[str, set[str]],
    tmp_path: Path,
    closed_port: str,
    redis_url: str,
) -> None:
    """A scheduler gives each node a worker, and reads from the engine that all share how the crawl ended.

    A third worker waits for a slot.
    """
    home, reachable = site
    with ExitStack() as stack:
        (tmp_path / "second").mkdir()
        nodes = [node, stack.enter_context(running_node(tmp_path / "second", node.python))]
        nodes[-1].ask("addversion", *form(egg, project="webcrawl", version="1"))
        own = {"DOWNLOAD_DELAY": 0, "DNS_SERVERS": closed_port, "REDIS_URL": redis_url}
        values = {"name": "news", "cron": "0 6 * * *", "spider": "broad", "seeds": [home], "workers": 3}
        values |= {"settings": own, "arguments": {"scope": "host"}}
        values |= {"nodes": [{"url": one.url, "slots": 1} for one in nodes]}
        (one,) = asyncio.run(run_job(values, tmp_path, redis_url))
        assert (one.state, one.reason, one.data_dir) == (IterationState.FINISHED, "finished", None), (
            node.log()
        )
        assert (one.processed, one.found, one.queued) == (len(reachable), len(reachable), 0)
        ran = [ran_on(place, one.crawl) for place in nodes]
        names = sorted(name for jobs in ran for _, _, name in jobs)
        assert names[:2] == [f"{one.crawl}.{place}.1" for place in range(2)]
        # the third begins if a worker ends before the scheduler sees that the crawl is over
        assert names[2:] in ([], [f"{one.crawl}.2.1"])
        for jobs in ran:
            assert jobs and all(end <= start for (_, end, _), (start, _, _) in pairwise(jobs))


def ran_on(node: Node, crawl: str) -> list[tuple[str, str, str]]:
    """The jobs of a crawl that a node has run, in order: when they started and ended, and their names."""
    found = node.ask("listjobs", project="webcrawl")["finished"]
    return sorted(
        (job["start_time"], job["end_time"], job["id"]) for job in found if job["id"].startswith(crawl)
    )


async def run_job(values: dict[str, Any], folder: Path, redis_url: str) -> list[Iteration]:
    """Runs a job once, and returns its iterations."""
    parts = {"SPIDER_MODULES": ["spiders"], "ADDONS": {"webcrawl.addon.WebcrawlAddon": 100}}
    crawls = JobCrawls(Settings({**parts, "DATA_DIR": str(folder / "data"), "REDIS_URL": redis_url}))
    with JobStore(f"sqlite:///{folder}/metadata.db") as store:
        store.apply([values], datetime.now(UTC))
        store.run("news", datetime.now(UTC))
        claims = IterationClaims(store, shared_engine=True)
        sweeper = Sweeper(
            crawls,
            Retention(store, crawls, claims.machine),
            Telling(store, f"sqlite:///{folder}/metadata.db", crawls, claims.machine),
        )
        scheduler = Scheduler(
            store, claims, Starting(crawls, Watching("a scheduler"), 0, 1), SystemClock(), sweeper
        )
        async with asyncio.timeout(300):
            while store.iterations()[0].ended is None:
                await scheduler.step()
                await asyncio.sleep(0.2)
        return store.iterations()
