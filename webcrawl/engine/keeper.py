"""Keeps the embedded Valkey of a data folder running: starts, restarts and, after its last user, stops it.

    python -m webcrawl.engine.keeper DATA_DIR/engine /path/to/valkey-server

The server inherits a locked file, DATA_DIR/engine/server. It holds that lock until it ends, even if its keeper is
killed, so two servers never write to one folder.

The keeper imports little, to start quickly and stay small, and runs in a session of its own.
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

from webcrawl.engine.server_folder import GAVE_UP, TEMPORARY, command, open_lock, socket_path

RESTARTS_A_MINUTE = 10
END_SECONDS = 60.0


def server_arguments(folder: Path, binary: Path) -> list[str]:
    """Returns the server's command line: durable, local, without a network port."""
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
    """One server process, and the lock that its users share."""

    def __init__(self, folder: Path, binary: Path) -> None:
        self._folder = folder
        self._arguments = server_arguments(folder, binary)
        self._socket = socket_path(folder)
        self._ending = threading.Event()
        self._server: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Waits until the last user is gone, then stops the server after it has written its data.

        Deletes the data folder if it is temporary.
        """
        supervisor = threading.Thread(target=self._supervise, daemon=True)
        supervisor.start()
        users = open_lock(self._folder / "users")
        fcntl.flock(users, fcntl.LOCK_EX)
        self._ending.set()
        deadline = time.monotonic() + END_SECONDS
        while supervisor.is_alive() and time.monotonic() < deadline:
            self._stop_server(users)
            supervisor.join(timeout=0.1)
        if self._is_folder_of(users) and (self._folder / TEMPORARY).exists():
            import shutil  # most keepers do not need it

            shutil.rmtree(self._folder.parent, ignore_errors=True)

    def _stop_server(self, users: int) -> None:
        """Asks the server to end; must be repeated, because the server may have been restarted a moment ago."""
        if self._is_folder_of(users):
            # not by a signal: the server may belong to another keeper that was killed
            command(self._socket, b"SHUTDOWN")
        elif self._server is not None:
            # the folder was deleted; a server that ends by itself would delete the socket, perhaps another server's
            self._server.kill()

    def _is_folder_of(self, users: int) -> bool:
        """Whether an open file is still in the folder, which may have been deleted and made again."""
        try:
            return os.path.samestat(os.fstat(users), (self._folder / "users").stat())
        except FileNotFoundError:
            return False

    def _supervise(self) -> None:
        starts: list[float] = []
        while not self._ending.is_set():
            starts = [start for start in starts if start > time.monotonic() - 60] + [time.monotonic()]
            if len(starts) > RESTARTS_A_MINUTE:
                print("valkey-server keeps dying: see valkey.log", file=sys.stderr, flush=True)
                os._exit(GAVE_UP)
            code = self._serve()
            if not self._ending.is_set():
                print(f"valkey-server ended with {code}: restarting it", file=sys.stderr, flush=True)
                self._ending.wait(0.1)

    def _serve(self) -> int:
        """Runs the server until it ends; returns its exit code."""
        lock = open_lock(self._folder / "server")
        try:
            # waits for the server of another keeper that was killed
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._ending.is_set():
                return 0
            self._server = subprocess.Popen(self._arguments, stdin=subprocess.DEVNULL, pass_fds=[lock])
        finally:
            os.close(lock)
        code = self._server.wait()
        self._server = None
        return code


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Keeper(Path(sys.argv[1]), Path(sys.argv[2])).run()


if __name__ == "__main__":
    main()
