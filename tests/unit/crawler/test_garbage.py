"""Host data that leaves the bounded caches of a long crawl is freed."""

from __future__ import annotations

import subprocess
import sys

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
