"""The leases of a crawl, read from the engine while the crawl runs."""

from __future__ import annotations

import time
from collections import Counter

from redis import Redis
from redis.exceptions import BusyLoadingError, ConnectionError

from webcrawl.engine.keys import Keys


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
