"""Runs scrapy commands in forks of a process that has imported the crawler, as imports are half of a small crawl.

`start(words, ...)` returns a process that can be waited for and killed. It is `python -m scrapy WORDS`, or that of
another module, but for its imports: the fork gets an environment, folder and session of its own before Scrapy runs.
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NoReturn

PACKAGES = ("scrapy.commands", "webcrawl.commands", "webcrawl.spiders")
"""Packages of which a command imports all modules."""
LATE = (
    *(
        "dateutil.relativedelta",
        "encodings.idna",
        "numpy.ma",
        "pyarrow.parquet",
        "rich.console",
        "scrapy_redis.spiders",
        "sqlalchemy.dialects.sqlite.pysqlite",
        "uvloop",
    ),
    *(
        "webcrawl.addon",
        "webcrawl.entry",
        "webcrawl.documents.markup_bounds",
        "webcrawl.documents.simhash",
        "webcrawl.engine.embedded",
    ),
    "webcrawl.policies.settled_credit",
    *("webcrawl.reparse.near_duplicates", "webcrawl.reparse.settings", "webcrawl.results.versions"),
    *("webcrawl.stores.duplicate_index", "webcrawl.stores.chosen_columns", "webcrawl.stores.metadata"),
    *("webcrawl.stores.due_pages", "webcrawl.stores.earlier_payloads", "webcrawl.stores.objects.folder"),
    *("webcrawl.temporary.command", "webcrawl.temporary.page_fetch", "webcrawl.temporary.scheduler"),
    *("webcrawl.links.questions", "webcrawl.urls.seeds"),
)
"""Modules of many crawls and commands that no component imports at its beginning."""
MOST_BYTES = 200_000
STARTING_WORKERS = ("workers", "reparse")
OWN_WORKERS = {"OWN_WORKERS": "1"}
"""The environment of a command whose workers are no forks."""
READERS = ("webcrawl.documents.html.outline_child", "webcrawl.documents.mime.reader_child")
"""The programs that read documents for a crawl."""
KEEPERS = "keepers"
"""The word that makes a process that forks one for keepers of engines alone."""
_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
"""The name of this run of the tests, if several processes share it."""
CHECKOUT = Path(__file__).resolve().parent.parent


class Process:
    """A running command; the methods and their results are those of subprocess.Popen."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._replies = connection.makefile("rb")
        self.pid = int(self._replies.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self._finish()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; after `timeout` seconds raise subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self._finish()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, unless it is known to have ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _finish(self) -> None:
        self.returncode = int(self._replies.readline())
        self._replies.close()
        self._connection.close()


def start(
    words: Iterable[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    streams: Sequence[IO[bytes]],
    module: str = "scrapy",
) -> Process:
    """Start a scrapy command in a new session; `streams` are its input, output and errors.

    A project with a webcrawl of its own, which must not change any more, is imported by another process.
    """
    home = cwd if (cwd / "webcrawl").exists() else CHECKOUT
    asked = {"module": module, "words": list(words), "cwd": str(cwd), "env": dict(env)}
    return _ask(_server(home), asked, [one.fileno() for one in streams])


def _ask(server: socket.socket, asked: Mapping[str, Any], streams: Sequence[int]) -> Process:
    ours, theirs = socket.socketpair()
    with theirs:
        socket.send_fds(server, [json.dumps(asked).encode()], [theirs.fileno(), *streams])
    return Process(ours)


class Forks:
    """Runs scrapy commands in forks of this process as it is now; for a program that was started here itself."""

    def __init__(self) -> None:
        self._server, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if not os.fork():
            os.setsid()  # Ctrl-C must not reach it
            self._server.close()
            os.dup2(theirs.detach(), 0)
            if (asked := serve()) is not None:
                run(asked)
            os._exit(0)
        theirs.close()

    def start(
        self,
        words: Sequence[str],
        *,
        stdin: int,
        stdout: IO[bytes] | None = None,
        stderr: IO[bytes] | None = None,
        env: Mapping[str, str] = os.environ,
        umask: int,
        **_: Any,
    ) -> Process:
        """Start `python -m scrapy ...` as `subprocess.Popen` does, in a new session."""
        asked = {"module": words[2], "words": list(words[3:]), "cwd": os.getcwd(), "env": dict(env)}
        streams = [stdin, stdout.fileno() if stdout else 1, stderr.fileno() if stderr else 2]
        return _ask(self._server, {**asked, "umask": umask}, streams)


class AwaitedProcess:
    """A process with the methods of asyncio's."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.pid = process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        return await asyncio.to_thread(self._process.wait)

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


def fork_workers() -> None:
    """Make the workers of a command, which starts in this process, forks of it."""
    forks = Forks()

    async def start(*words: str, **options: Any) -> AwaitedProcess:
        return AwaitedProcess(forks.start(words, **options))

    vars(asyncio)["create_subprocess_exec"] = start


class ForkedReader:
    """A fork that reads documents, with the attributes and methods of asyncio's processes that a crawl uses."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    @property
    def returncode(self) -> int | None:
        if self._status is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if ended else None
        return self._status

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    async def wait(self) -> int:
        if self.returncode is None:
            loop, ended, fd = asyncio.get_running_loop(), asyncio.Event(), os.pidfd_open(self.pid)
            loop.add_reader(fd, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(fd)
                os.close(fd)
        assert self.returncode is not None
        return self.returncode


def fork_readers() -> None:
    """Make the processes that read documents forks of the crawl: as new programs they take 0.15 s to start."""
    start_program = asyncio.create_subprocess_exec

    async def start(*words: str, **options: Any) -> ForkedReader | asyncio.subprocess.Process:
        if words[1:2] != ("-m",) or words[2] not in READERS:
            return await start_program(*words, **options)
        if pid := os.fork():
            return ForkedReader(pid)
        _read_documents(words[2], words[3], options["stdin"], options["env"])

    vars(asyncio)["create_subprocess_exec"] = start


def _read_documents(program: str, memory: str, fd: int, env: Mapping[str, str]) -> NoReturn:
    """Be one of READERS in this fork, which may take `memory` more bytes than it has."""
    status = 1
    with suppress(BaseException):
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_WRONLY)
        for place, stream in enumerate((fd, fd, null)):
            os.dup2(stream, place)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        sys.stdin = os.fdopen(0, closefd=False)
        os.environ.clear()
        os.environ.update(env)
        for name in [name for name, module in sys.modules.items() if module is None]:
            del sys.modules[name]  # a test hides it from the crawl alone
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        sys.argv = [program, str(int(memory) + pages * resource.getpagesize())]
        Path("/proc/self/comm").write_text(program.rpartition(".")[2])
        try:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
            status = 0
        except SystemExit as ending:
            status = ending.code if isinstance(ending.code, int) else 0
    os._exit(status)


def fork_keepers(home: str) -> None:
    """Make the keepers of embedded engines forks of a small process, as imports are most of their work."""
    from webcrawl.engine import embedded

    server, _ = _start_server(home, KEEPERS)

    def start(
        words: Sequence[str],
        *,
        stdout: IO[bytes],
        stderr: IO[bytes],
        env: Mapping[str, str],
        pass_fds: Sequence[int],
        **_: Any,
    ) -> Process:
        os.umask(umask := os.umask(0o077))
        asked = {"module": words[2], "words": list(words[3:]), "cwd": os.getcwd(), "env": dict(env)}
        with open(os.devnull, "rb") as null:
            streams = [null.fileno(), stdout.fileno(), stderr.fileno(), *pass_fds]
            return _ask(server, {**asked, "umask": umask}, streams)

    vars(embedded)["subprocess"] = SimpleNamespace(Popen=start, DEVNULL=subprocess.DEVNULL)


@cache
def _server(home: Path) -> socket.socket:
    """A connection to the process that forks and has imported the webcrawl of a folder, until these tests end.

    The processes of one run of the tests share it: imports take two seconds.
    """
    if _RUN:
        return _shared_server(home)
    ours, server = _start_server(str(home))

    def end() -> None:
        ours.close()
        server.wait(60)

    atexit.register(end)
    return ours


def _shared_server(home: Path) -> socket.socket:
    """A connection to the process that forks for all processes of this run; it ends with its last connection."""
    name = f"\0webcrawl-tests {_RUN} {home}"
    with open(__file__) as lock, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ours = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            ours.connect(name)
        except ConnectionRefusedError:
            listener.bind(name)
            listener.listen(64)
            ours.connect(name)
            _spawn(listener, str(home))
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
    return ours


def _start_server(home: str, *words: str) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """A connection to a process that forks, and that process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = _spawn(theirs, home, *words)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
    return ours, server


def _spawn(requests: socket.socket, home: str, *words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, __file__, home, *words],
        cwd=home,
        stdin=requests,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


# --- the process that forks ---


def serve() -> dict[str, Any] | None:
    """Fork for every request; returns the request in the fork that is to run it, and None at the end.

    Requests come from the socket 0, or from the connections to it if it listens.
    """
    requests = socket.socket(fileno=0)
    listens = bool(requests.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    clients = [] if listens else [requests]
    wakes, waker = socket.socketpair()
    for end in (wakes, waker):
        end.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)  # else it would not wake
    running: dict[int, int] = {}
    while True:
        ready = select.select([requests, wakes, *clients], [], [])[0]
        if wakes in ready:
            wakes.recv(4096)
            _tell_of_ends(running)
        if listens and requests in ready:
            clients.append(requests.accept()[0])
        client = next((client for client in clients if client in ready), None)
        if client is None:
            continue
        asked, fds, _, _ = socket.recv_fds(client, MOST_BYTES, 5)
        if not asked:
            client.close()
            clients.remove(client)
            if not clients:
                return None
            continue
        connection, *streams = fds
        if not (pid := os.fork()):
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            others = [client.detach() for client in clients if client is not requests]
            requests.detach()
            for fd in (wakes.detach(), waker.detach(), *others, *running.values()):
                os.close(fd)
            _begin(connection, streams)
            return json.loads(asked)
        running[pid] = connection
        for fd in streams:
            os.close(fd)


def _tell_of_ends(running: dict[int, int]) -> None:
    """Report the exit status of each command that has ended, on its connection."""
    for pid, connection in list(running.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            del running[pid]
            with suppress(OSError):  # whoever started it may be gone
                os.write(connection, b"%d\n" % os.waitstatus_to_exitcode(status))
            os.close(connection)


def _begin(connection: int, streams: Sequence[int]) -> None:
    """Make this fork a process of its own, and tell its number."""
    os.setsid()
    os.write(connection, b"%d\n" % os.getpid())  # from now on its process group can be killed
    os.close(connection)
    for place, fd in enumerate(streams):
        os.dup2(fd, place)
        os.close(fd)


def run(asked: Mapping[str, Any]) -> None:
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.path[0:1] = [asked["cwd"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = [asked["module"], *asked["words"]]
    if "umask" in asked:
        os.umask(asked["umask"])
    if asked["words"][:1] and asked["words"][0] in STARTING_WORKERS and not os.environ.keys() & OWN_WORKERS:
        fork_workers()
    try:
        runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        if isinstance(ending.code, int | None):
            _end(ending.code or 0)
        raise
    _end(0)


def _end(status: int) -> None:
    """End as Python does, but for the modules: to free what they hold would first copy it from the parent's memory.

    That takes 0.1 s, half of a small crawl. A stream that cannot be flushed is left to Python, which tells why.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()  # for the finalizers of what the command has left, such as tasks that were not awaited
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def preload() -> None:
    """Import the modules of a crawl, and compute what they keep."""
    gc.disable()  # nothing of it is garbage
    # the versions and commands of 200 packages, which stay the same
    metadata.version = cache(metadata.version)
    metadata.entry_points = cache(metadata.entry_points)
    from scrapy.settings import SettingsAttribute, default_settings

    from webcrawl.config import parts

    # a crawl copies its settings four times
    SettingsAttribute.__deepcopy__ = _copied
    paths = [path for module in (default_settings, parts) for path in _paths(vars(module))]
    names = {path.rpartition(".")[0] for path in paths}
    for package in PACKAGES:
        folder = importlib.import_module(package).__path__
        names |= {found.name for found in pkgutil.iter_modules(folder, f"{package}.")}
    for name in (*sorted(names), *LATE, "scrapy.cmdline"):
        importlib.import_module(name)
    from importlib.resources import files

    from redis.utils import get_lib_version
    from scrapy.commands import ScrapyCommand
    from scrapy.utils.versions import get_versions

    from webcrawl.documents.page import Page
    from webcrawl.documents.simhash import simhash64
    from webcrawl.engine.scripts import script_source
    from webcrawl.stores.metadata import Metadata

    metadata.entry_points(group="scrapy.commands")
    get_lib_version()
    get_versions()
    simhash64("a page")
    # Scrapy asks this of all that the modules of commands import; an abstract class keeps the answers
    commands = [vars(module) for name, module in sys.modules.items() if name.startswith(PACKAGES)]
    for value in chain.from_iterable(names.values() for names in commands):
        isinstance(value, type) and issubclass(value, ScrapyCommand)
    page = Page(url="http://a.example/", host="http://a.example", fetched_at=datetime.now(UTC), status=200)
    with Metadata("sqlite://") as stored:
        stored.upsert([page.row()])
    for script in (files("webcrawl.engine") / "lua").iterdir():
        if script.is_file():
            script_source(script.name.removesuffix(".lua"))
    gc.freeze()
    gc.enable()


def _copied(setting: Any, copies: dict[int, Any]) -> Any:
    """A copy of a setting, in a third of the time that `deepcopy` takes without this method."""
    copied = object.__new__(type(setting))
    copied.value, copied.priority = deepcopy(setting.value, copies), setting.priority
    return copied


def _paths(value: Any) -> Iterator[str]:
    """The names of objects in a setting."""
    if isinstance(value, Mapping):
        for pair in value.items():
            yield from chain.from_iterable(map(_paths, pair))
    elif isinstance(value, str) and value.startswith(("scrapy.", "webcrawl.")):
        yield value


if __name__ == "__main__":
    sys.path[0] = sys.argv[1]
    if sys.argv[2:] == [KEEPERS]:
        importlib.import_module("webcrawl.engine.keeper")
        gc.freeze()
    else:
        preload()
        fork_keepers(sys.argv[1])
        fork_readers()
    if (one := serve()) is not None:
        run(one)
