"""Crawls as a user starts them: processes in the checkout that a test can wait for or kill."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Self

from scrapy.utils.project import ENVVAR

from tests import preloaded, tuning

CHECKOUT = Path(__file__).resolve().parent.parent
NO_NAMES = "127.0.0.1:9"
"""The address of a DNS server that does not exist, so that no test sends queries outside."""
OF_MAKE = ("MAKE", "MFLAGS", "SEEDS", "SCOPE", "DATA", "MAX_PAGES", "WORKERS", "ARGS")
"""Beginnings of the variables with which a make that runs the tests would change a make that a test runs."""
TRUSTED = {"SSL_CERT_FILE": os.devnull}
"""Crawls in tests reach only servers of the tests; to read the certificates of a system takes 20 ms."""
_numbers = itertools.count(1)
Process = preloaded.Process | subprocess.Popen[bytes]


@dataclass(frozen=True)
class CrawlResult:
    """The result of a finished crawl: exit code, output, and data folder."""

    returncode: int
    stdout: str
    stderr: str
    data_dir: Path

    @property
    def summary(self) -> dict[str, Any]:
        return dict(json.loads((self.data_dir / "summary.json").read_text()))

    def rows(self, table: str = "pages") -> list[dict[str, Any]]:
        """The rows of a table of the metadata database, as dicts."""
        with closing(sqlite3.connect(self.data_dir / "metadata.db")) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(f"SELECT * FROM {table}")]


class Crawl:
    """A running `scrapy crawl` in its own process group, so that a test can kill all of its processes."""

    def __init__(self, process: Process, output: Path, data_dir: Path) -> None:
        self.process = process
        self.data_dir = data_dir
        self._output = output

    @classmethod
    def start(
        cls,
        spider: str,
        seeds: Iterable[str] | str = (),
        *,
        folder: Path,
        data_dir: Path,
        command: Iterable[str] = ("crawl",),
        scope: str | None = "host",
        arguments: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        project: Path = CHECKOUT,
        tuned: Mapping[str, object] | None = None,
        within: Sequence[str] = (),
        **settings: object,
    ) -> Self:
        """Start `scrapy COMMAND SPIDER -a seeds=... -a scope=... -s NAME=VALUE...`.

        Its output goes to files in `folder`. `arguments` become further `-a NAME=VALUE`, `settings` become `-s`, `env`
        is added to the environment, and `project` is the working directory. Without seeds there is no scope. None
        leaves a setting or the scope to the project. There is no delay between requests, and names resolve only if
        DNS_SERVERS is given.
        `tuned` sets fields of the crawl's FrontierConfig that have no setting. `within`: the beginning of the command,
        a program that runs the rest.
        REDIS_URL is not inherited: without it a crawl starts an embedded engine in `data_dir`.
        """
        seeds = seeds if isinstance(seeds, str) else ",".join(seeds)
        seeded = {"seeds": seeds, "scope": scope} if seeds else {}
        spider_arguments = {**seeded, **(arguments or {})}
        # tests compare the requests that a server got
        settings = {"DNS_SERVERS": NO_NAMES, "SOFT_404": False, "DOWNLOAD_DELAY": 0, **settings}
        if tuned:
            settings |= tuning.settings(**tuned)
            env = {"PYTHONPATH": str(CHECKOUT), **(env or {})}
        words = [*command, spider]
        for option, values in {"-a": spider_arguments, "-s": settings}.items():
            given = {name: value for name, value in values.items() if value is not None}
            words += [word for name, value in given.items() for word in (option, f"{name}={value}")]
        words += ["-s", f"DATA_DIR={data_dir}"]
        output = folder / f"crawl{next(_numbers)}"
        environment = inherited()
        with (
            open(os.devnull, "rb") as null,
            output.with_suffix(".out").open("wb") as out,
            output.with_suffix(".err").open("wb") as err,
        ):
            # files, not pipes: an embedded engine outlives the crawl and would keep a pipe open
            variables, streams = {**environment, **TRUSTED, **(env or {})}, [null, out, err]
            process: Process = (
                run_apart([*within, sys.executable, "-m", "scrapy", *words], project, variables, streams)
                if within
                else start_scrapy(words, project, variables, streams)
            )
        return cls(process, output, data_dir)

    @property
    def stderr(self) -> str:
        """What the crawl has written to stderr so far."""
        return self._output.with_suffix(".err").read_text(errors="replace")

    def wait(self, timeout: float = 180.0, *, status: int | None = 0) -> CrawlResult:
        """Wait until the crawl ends, which must exit with `status`; None accepts any.

        After `timeout` seconds kill it and fail with the end of its log.
        """
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the crawl took over {timeout} s:\n{self.stderr[-4000:]}") from None
        stdout = self._output.with_suffix(".out").read_text(errors="replace")
        assert status in (code, None), f"exit status {code} instead of {status}:\n{stdout}{self.stderr}"
        return CrawlResult(code, stdout, self.stderr, self.data_dir)

    def interrupt(self) -> None:
        """Send SIGINT, as Ctrl-C does."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        """Kill the whole process group with SIGKILL, if it is still running."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(60)


def inherited() -> dict[str, str]:
    """The environment for a command: that of these tests without what names an engine or a project.

    `get_project_settings()` names the project of this process there, for all processes that it starts.
    """
    return {name: value for name, value in os.environ.items() if name not in ("REDIS_URL", ENVVAR)}


def start_scrapy(
    words: Sequence[str], project: Path, env: Mapping[str, str], streams: Sequence[IO[bytes]]
) -> Process:
    """Start a scrapy command in a session of its own; `streams` are its input, output and errors."""
    return start_python("scrapy", words, project, env, streams)


def start_python(
    module: str, words: Sequence[str], project: Path, env: Mapping[str, str], streams: Sequence[IO[bytes]]
) -> Process:
    """Start `python -m MODULE WORDS` as `start_scrapy` does."""
    if sys.platform == "linux":
        return preloaded.start(words, cwd=project, env=env, streams=streams, module=module)
    return run_apart([sys.executable, "-m", module, *words], project, env, streams)


def run_apart(
    command: Sequence[str], project: Path, env: Mapping[str, str], streams: Sequence[IO[bytes]]
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own; `streams` are its input, output and errors."""
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        command, cwd=project, env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
    )


def scrapy(
    *words: str,
    cwd: Path = CHECKOUT,
    env: Mapping[str, str] | None = None,
    typed: str = "",
    timeout: float = 180.0,
    status: int | None = 0,
) -> subprocess.CompletedProcess[str]:
    """Run a scrapy command to its end, which must exit with `status`; None accepts any.

    After `timeout` seconds it is killed, and subprocess.TimeoutExpired raised.
    """
    env = {**inherited(), **TRUSTED, **(env or {})}
    return run_python("scrapy", words, cwd, env, typed=typed, timeout=timeout, status=status)


def run_python(
    module: str,
    words: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    *,
    typed: str = "",
    timeout: float = 180.0,
    status: int | None = 0,
) -> subprocess.CompletedProcess[str]:
    """Run `python -m MODULE WORDS` to its end, as `scrapy` does."""
    with TemporaryFile() as stdin, TemporaryFile() as out, TemporaryFile() as err:
        stdin.write(typed.encode())
        stdin.seek(0)
        process = start_python(module, words, cwd, env, [stdin, out, err])
        try:
            code = process.wait(timeout)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(60)
        out.seek(0)
        err.seek(0)
        texts = [file.read().decode(errors="replace") for file in (out, err)]
        assert status in (code, None), f"{words}: exit status {code} instead of {status}:\n{''.join(texts)}"
        return subprocess.CompletedProcess(words, code, *texts)


def until(
    condition: Callable[[], bool], crawl: Crawl, seconds: float = 180.0, *, look_every: float = 0.01
) -> None:
    """Wait for a condition while the crawl runs, and look at it after each `look_every` seconds.

    What takes long to look at, such as a log, is looked at less often: looks take a fiftieth of a processor.
    """
    deadline = time.monotonic() + seconds
    while True:
        before = time.thread_time()
        if condition():
            return
        pause = min(50 * (time.thread_time() - before), 0.25)
        assert crawl.process.poll() is None, f"the crawl ended early:\n{crawl.stderr[-3000:]}"
        assert time.monotonic() < deadline, (
            f"the condition did not hold within {seconds} s:\n{crawl.stderr[-3000:]}"
        )
        time.sleep(max(look_every, pause))


def crawl_hosts(
    seeds: Iterable[str], folder: Path, *, scope: str = "host", timeout: float = 180.0, **settings: object
) -> CrawlResult:
    """Crawl the seeds' hosts once, for several tests that check the results in `folder`."""
    crawl = Crawl.start("broad", seeds, folder=folder, data_dir=folder / "data", scope=scope, **settings)
    return crawl.wait(timeout)


def items_of(path: Path) -> list[dict[str, Any]]:
    """The items of a JSON Lines feed."""
    return [json.loads(line) for line in path.read_text().splitlines()]
