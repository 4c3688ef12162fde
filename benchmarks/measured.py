"""Runs a command, waits until it and all its descendants have ended, and prints their cost as JSON.

    python measured.py [--socket PATH] [--server COMMAND...] -- COMMAND...

`--server` runs beside the command and is ended after it; its unix socket is awaited first. Linux alone reports the end
of grandchildren (PR_SET_CHILD_SUBREAPER), so an engine that outlives its crawl is counted exactly.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

PR_SET_CHILD_SUBREAPER = 36
SERVER_SECONDS = 10.0
SAMPLE_SECONDS = 0.5
ENGINES = ("valkey-server", "redis-server")


class Memory(threading.Thread):
    """Samples the resident memory of this process's descendants and keeps the highest sums, in MB.

    The memory that wait4() reports is of no use: a forked process inherits its parent's peak.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.crawler = self.engine = 0.0

    def run(self) -> None:
        while True:
            use = use_of(os.getpid(), own=False)
            self.crawler, self.engine = max(self.crawler, use.worker), max(self.engine, use.engine)
            time.sleep(SAMPLE_SECONDS)


class Process(NamedTuple):
    """One process: its name, resident memory in KiB, and seconds of CPU so far."""

    name: str
    kib: int
    cpu: float


def tree(root: int) -> dict[int, Process]:
    """A process and all its descendants, by id."""
    parents, all_there = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                head, _, tail = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue
            fields = tail.split()
            parents[int(entry.name)] = int(fields[1])
            kib = int(fields[21]) * os.sysconf("SC_PAGESIZE") // 1024
            cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            all_there[int(entry.name)] = Process(head.partition("(")[2], kib, cpu)
    descendants, todo = {}, [root]
    while todo:
        above = todo.pop()
        if above in all_there:
            descendants[above] = all_there[above]
        todo += [pid for pid, parent in parents.items() if parent == above]
    return descendants


class Use(NamedTuple):
    """What a crawl and its engine use: memory in MB, seconds of CPU so far."""

    worker: float
    engine: float
    cpu: float


def use_of(pid: int, *, own: bool = True) -> Use:
    """What all descendants of a process use, and its `own` use."""
    processes = [process for number, process in tree(pid).items() if own or number != pid]
    engine = sum(process.kib for process in processes if process.name in ENGINES)
    worker = sum(process.kib for process in processes) - engine
    return Use(worker / 1024, engine / 1024, sum(process.cpu for process in processes))


def start_server(command: list[str], socket: Path) -> subprocess.Popen[bytes]:
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + SERVER_SECONDS
    while not socket.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{command[0]} does not start")
        time.sleep(0.02)
    return server


def measured(command: list[str], server: subprocess.Popen[bytes] | None) -> dict[str, float]:
    """CPU: `crawler` is the command with the children that it waited for, `engine` all other processes."""
    crawler = subprocess.Popen(command, stdout=sys.stderr)
    memory = Memory()
    memory.start()
    crawler_cpu = engine_cpu = 0.0
    code = 0
    while True:
        try:
            pid, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            break
        cpu = usage.ru_utime + usage.ru_stime
        if pid == crawler.pid:
            crawler_cpu = cpu
            code = os.waitstatus_to_exitcode(status)
            if server is not None:
                server.terminate()
        else:
            engine_cpu += cpu
    return {
        "exit_code": code,
        "crawler_cpu": crawler_cpu,
        "crawler_peak": memory.crawler,
        "engine_cpu": engine_cpu,
        "engine_peak": memory.engine,
    }


def main() -> None:
    own, command = sys.argv[1 : sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1 :]
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    server = start_server(own[3:], Path(own[1])) if own else None
    json.dump(measured(command, server), sys.stdout)


if __name__ == "__main__":
    main()
