"""Memory that a long crawl needs no more is freed, and returned to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from collections import deque
from webcrawl.commands.crawl import _collect_garbage_rarely
from webcrawl.hosts.robots import RobotsPolicy

_collect_garbage_rarely()
alive = most = 0


class Alive:
    def __init__(self):
        global alive, most
        alive += 1
        most = max(most, alive)

    def __del__(self):
        global alive
        alive -= 1


kept = deque(maxlen=10_000)
for number in range(100_000):
    rules = b"User-agent: *\\nDisallow: /%d\\n" % number
    policy = RobotsPolicy.from_response(200, rules, url="http://a.example/robots.txt")
    policy._parsed._groups["alive"] = Alive()
    kept.append(policy)
print(most)
"""


def test_evicted_robots_policies_are_freed() -> None:
    """Garbage is collected rarely; at most half a million unreachable objects may remain."""
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=280)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < 80_000


RETURNED = """
import asyncio
import resource
from pathlib import Path
from webcrawl.commands.crawl import _give_back_memory_often


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def main():
    _give_back_memory_often()
    before = resident()
    blocks = [bytes(2_000) for _ in range(20_000)]
    last = blocks[-1]  # the heap cannot shrink below it
    blocks.clear()
    used = resident() - before
    for _ in range(600):
        if resident() - before < used / 2:
            return print("returned")
        await asyncio.sleep(0.1)


asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the C library of other systems is not asked")
def test_free_memory_is_returned_to_the_system() -> None:
    ran = subprocess.run([sys.executable, "-c", RETURNED], capture_output=True, text=True, timeout=280)
    assert ran.stdout == "returned\n", ran.stderr
