"""Keeps the embedded Valkey of a data folder: starts it, starts it again when it dies, ends it after its last user.

    python -m webcrawl.engine.keeper DATA_DIR/engine /path/to/valkey-server

The server inherits a locked file, DATA_DIR/engine/server, and so holds the lock for as long as it lives, whatever
becomes of its keeper: no two servers ever write to one folder.

It needs nothing but the standard library, to be quick and small, and lives in a session of its own.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from webcrawl.engine.embedded import command, socket_path

RESTARTS_A_MINUTE = 10
END_SECONDS = 60.0


def server_arguments(folder: Path, binary: Path) -> list[str]:
    """The command line of the server: durable, local, nothing listening on the network."""
    return [
        str(binary),
        *("--port", "0"),
        *("--unixsocket", str(socket_path(folder)), "--unixsocketperm", "600"),
        *("--dir", str(folder), "--logfile", str(folder / "valkey.log")),
        *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
        *("--aof-load-truncated", "yes", "--daemonize", "no", "--enable-protected-configs", "no"),
        # a set of 64-bit fingerprints stays compact up to this size; the seen set splits its buckets below it
        *("--set-max-intset-entries", "512"),
    ]


class Keeper:
    """One server process and the lock that tells whether anybody still needs it."""

    def __init__(self, folder: Path, binary: Path) -> None:
        self._folder = folder
        self._arguments = server_arguments(folder, binary)
        self._socket = socket_path(folder)
        self._ending = threading.Event()

    def run(self) -> None:
        """Block until the last user is gone, then end the server, its data written."""
        supervisor = threading.Thread(target=self._supervise, daemon=True)
        supervisor.start()
        users = os.open(self._folder / "users", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(users, fcntl.LOCK_EX)
        self._ending.set()
        deadline = time.monotonic() + END_SECONDS
        while supervisor.is_alive() and time.monotonic() < deadline:
            # again and again: the server may just be coming up, started anew a moment before
            command(self._socket, b"SHUTDOWN")
            supervisor.join(timeout=0.1)

    def _supervise(self) -> None:
        starts: list[float] = []
        while not self._ending.is_set():
            starts = [start for start in starts if start > time.monotonic() - 60] + [time.monotonic()]
            if len(starts) > RESTARTS_A_MINUTE:
                print("valkey-server keeps dying: see valkey.log", file=sys.stderr, flush=True)
                os._exit(1)
            code = self._serve()
            if not self._ending.is_set():
                print(f"valkey-server ended with {code}: starting it again", file=sys.stderr, flush=True)
                self._ending.wait(0.1)

    def _serve(self) -> int:
        """Run the server to its end; returns its exit code."""
        with (self._folder / "server").open("ab") as lock:
            # another keeper may have been killed and have left its server behind: until that ends, wait
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._ending.is_set():
                return 0
            server = subprocess.Popen(self._arguments, stdin=subprocess.DEVNULL, pass_fds=[lock.fileno()])
        return server.wait()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Keeper(Path(sys.argv[1]), Path(sys.argv[2])).run()


if __name__ == "__main__":
    main()
