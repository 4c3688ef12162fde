"""A real PostgreSQL server for tests, on a unix socket in its own folder, that can be stopped and restarted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlsplit

import psycopg

START_SECONDS = 60
EMPTY = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    "DROP SCHEMA public CASCADE",
    "CREATE SCHEMA public",
    "GRANT USAGE ON SCHEMA public TO public",
)
"""Makes a database as a new one is, in 7 ms of processor time."""


def postgres_folder() -> Path | None:
    """The folder of initdb and pg_ctl, or None without PostgreSQL. Debian does not put them on the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return installed[-1].parent if installed else None


class PostgresServer:
    """A server without passwords and without fsync."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        # PostgreSQL refuses to run as root
        self._user = "postgres" if os.geteuid() == 0 else None
        # not in pytest's folder: the path of a socket is limited to about 100 bytes
        self.folder = Path(tempfile.mkdtemp(prefix="postgres"))
        self._databases = 0
        self._empty: list[str] = []
        self._hanging: list[int] = []

    def __enter__(self) -> Self:
        if self._user:
            shutil.chown(self.folder, self._user)
        # a collation that differs from byte order, as on most servers
        order = ["--locale-provider=icu", "--icu-locale=en-US", "--encoding=UTF8", "--locale=C.UTF-8"]
        self._run("initdb", "-D", "data", "-A", "trust", "--no-sync", "-U", "crawler", *order)
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' -c fsync=off"
        with (self.folder / "data" / "postgresql.auto.conf").open("a") as file:
            for setting in options.split("-c ")[1:]:
                file.write(setting.strip().replace("=", " = ", 1) + "\n")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._run("pg_ctl", "-D", "data", "-l", "log", "-w", "-t", str(START_SECONDS), "start")

    def stop(self) -> None:
        """Stop the server and drop all clients; committed data is kept."""
        self.go_on()
        self._run("pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop", check=False)

    def hang(self) -> None:
        """Freeze all its processes: it still accepts connections and data, but never answers."""
        server = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        # the parent first, so that it starts no new processes
        for pid in (server, *self._children(server)):
            self._hanging.append(pid)
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Resume the processes after `hang`."""
        while self._hanging:
            with suppress(ProcessLookupError):
                os.kill(self._hanging.pop(), signal.SIGCONT)

    @contextmanager
    def database(self) -> Iterator[str]:
        """The SQLAlchemy URI of an empty database, which later tests use again: a new one takes 0.1 s to make."""
        uri = self._empty.pop() if self._empty else self.new_database()
        yield uri
        with suppress(psycopg.OperationalError):  # the test has stopped the server
            self.execute(uri, *EMPTY)
            self._empty.append(uri)

    def new_database(self) -> str:
        """The SQLAlchemy URI of an empty database."""
        self._databases += 1
        name = f"crawl{self._databases}"
        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return f"postgresql://crawler@/{name}?host={quote(str(self.folder), '')}"

    def execute(self, uri: str, *statements: str) -> None:
        """Run statements in a database that `new_database` returned."""
        name = urlsplit(uri).path[1:]
        with psycopg.connect(self.conninfo(name), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def as_role(self, uri: str, role: str) -> str:
        """The URI of the same database for a new role without privileges."""
        self.execute(uri, f"CREATE ROLE {role} LOGIN")
        return uri.replace("//crawler@", f"//{role}@")

    def conninfo(self, name: str) -> str:
        """The connection string of a database for psycopg."""
        return f"host={self.folder} user=crawler dbname={name}"

    @staticmethod
    def _children(server: int) -> list[int]:
        return [int(pid) for pid in Path(f"/proc/{server}/task/{server}/children").read_text().split()]

    def _run(self, program: str, *words: str, check: bool = True) -> None:
        command = [str(self._binaries / program), *words]
        with (self.folder / "output").open("ab") as output:
            done = subprocess.run(
                command,
                cwd=self.folder,
                user=self._user,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=2 * START_SECONDS,
            )
        if check and done.returncode:
            raise RuntimeError(f"{program}: {(self.folder / 'output').read_text()[-2000:]}")
