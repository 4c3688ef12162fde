"""Hit ratios, time and memory of the cache of popular URLs, beside other ways to replace entries.

    python -m benchmarks.url_cache [--pages 100000] [--hosts 300000] [--sizes 12,14,16,18] [--json FILE]

Reads the links of real documentation (Debian packages, see `sites`) and of the generated web, page by page,
breadth-first over all hosts, as a crawl finds them. Each policy answers whether it knows a link; an unknown one is
added.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import tracemalloc
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote

from benchmarks.generated_web import World
from benchmarks.sites import available
from webcrawl.documents.document import Document
from webcrawl.documents.html.links import page_links
from webcrawl.frontier import RecentCache

HREF = re.compile(r'href="([^"]+)"')
Trace = Sequence[Sequence[int]]
"""The links of each page, as numbers: a link has the same number wherever it is found."""


class Policy(Protocol):
    """What `RecentCache` offers."""

    def add(self, one: int, /) -> bool: ...
    def absent(self, several: Sequence[int], /) -> list[int]: ...


class TwoGenerations:
    """When the younger set is full it becomes the older, and the older is dropped; a hit changes nothing."""

    def __init__(self, capacity: int) -> None:
        self._half = max(1, capacity // 2)
        self._young: set[int] = set()
        self._old: set[int] = set()

    def add(self, one: int) -> bool:
        if one in self._young or one in self._old:
            return False
        if len(self._young) >= self._half:
            self._old, self._young = self._young, set()
        self._young.add(one)
        return True

    def absent(self, several: Sequence[int]) -> list[int]:
        young, old = self._young, self._old
        return [one for one in several if one not in young and one not in old]


class LeastRecentlyUsed:
    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: OrderedDict[int, None] = OrderedDict()

    def add(self, one: int) -> bool:
        if one in self._entries:
            self._entries.move_to_end(one)
            return False
        if len(self._entries) >= self._capacity:
            self._entries.popitem(last=False)
        self._entries[one] = None
        return True

    def absent(self, several: Sequence[int]) -> list[int]:
        found = []
        for one in several:
            if one in self._entries:
                self._entries.move_to_end(one)
            else:
                found.append(one)
        return found


POLICIES: dict[str, Callable[[int], Policy]] = {
    "two generations": TwoGenerations,
    "CLOCK": RecentCache[int],
    "least recently used": LeastRecentlyUsed,
    "unbounded": lambda _: TwoGenerations(2**62),
}


def breadth_first(seeds: Iterable[str], links: Callable[[str], Iterable[str]]) -> Iterator[Sequence[int]]:
    """Yields the links of each page that is reached from the seeds, as numbers."""
    names: dict[str, int] = {}
    todo = deque(seeds)
    seen = set(todo)
    while todo:
        found = array("Q")
        for link in links(todo.popleft()):
            found.append(names.setdefault(link, len(names)))
            if link not in seen:
                seen.add(link)
                todo.append(link)
        yield found


def documentation() -> Iterator[Sequence[int]]:
    sites = {f"http://{site.address}": site.folder for site in available()}

    def links(url: str) -> Iterable[str]:
        host, _, path = url.partition("//")[2].partition("/")
        folder = sites.get(f"http://{host}")
        file = folder / unquote(path.partition("?")[0] or "index.html") if folder else None
        if file is None or file.suffix != ".html" or not file.is_file():
            return ()
        return page_links(Document(file.read_bytes(), "text/html", "utf-8", url).elements, url).links

    # a page that could not be read has none, and no crawl looks them up
    return (found for found in breadth_first([f"{host}/" for host in sites], links) if found)


def generated(hosts: int) -> Iterator[Sequence[int]]:
    world = World(hosts, 80)

    def links(url: str) -> Iterable[str]:
        host, page = url.removeprefix("http://h").split(".", 1)[0], url.rpartition("/p")[2]
        root = url[: url.index("/", 8)]
        found = HREF.findall(world.page(int(host), int(page)).decode())
        return dict.fromkeys(root + link if link.startswith("/") else link for link in found)

    return breadth_first([world.url(host) for host in range(10)], links)


def hit_ratio(policy: Policy, trace: Trace) -> float:
    """The share of the links that the policy knew."""
    looked_up = misses = 0
    for links in trace:
        looked_up += len(links)
        for link in policy.absent(links):
            misses += policy.add(link)
    return 1 - misses / looked_up


def nanoseconds(make: Callable[[int], Policy], capacity: int, trace: Trace, rounds: int = 5) -> float:
    """Processor time of a link, looked up and added if it is unknown; the best of several rounds."""
    times = []
    for _ in range(rounds):
        policy = make(capacity)
        began = time.process_time_ns()
        hit_ratio(policy, trace)
        times.append(time.process_time_ns() - began)
    return min(times) / sum(map(len, trace))


def bytes_an_entry(make: Callable[[int], Policy], capacity: int) -> float:
    """Memory of a full cache of 64-bit fingerprints, without the fingerprints themselves."""
    # as full as the two generations become
    numbers = [number * 0x9E3779B97F4A7C15 & 2**63 - 1 for number in range(2 * capacity - 2)]
    tracemalloc.start()
    policy = make(capacity)
    for number in numbers:
        policy.add(number)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / capacity


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pages", type=int, default=100_000, help="of each web, at most")
    parser.add_argument("--hosts", type=int, default=300_000, help="of the generated web")
    parser.add_argument("--sizes", default="12,14,16,18", help="entries, as powers of two")
    parser.add_argument("--json", type=Path)
    said = parser.parse_args()
    sizes = [int(size) for size in said.sizes.split(",")]
    figures: dict[str, dict[str, float]] = {}
    for name, pages in (("documentation", documentation()), ("generated web", generated(said.hosts))):
        trace = list(islice(pages, said.pages))
        print(f"\n{name}: {len(trace):,} pages, {sum(map(len, trace)):,} links\n")
        print("| | " + " | ".join(f"2^{size}" for size in sizes) + " | ns a link, 2^16 |")
        for policy, make in POLICIES.items():
            found = {f"2^{size}": 100 * hit_ratio(make(2**size), trace) for size in sizes}
            found["ns"] = nanoseconds(make, 2**16, trace)
            figures[f"{name}, {policy}"] = found
            print(f"| {policy} | " + " | ".join(f"{value:.1f}" for value in found.values()) + " |")
    print("\n| | bytes an entry, 2^18 |")
    for policy, make in list(POLICIES.items())[:-1]:
        figures.setdefault("memory", {})[policy] = bytes_an_entry(make, 2**18 - 1)
        print(f"| {policy} | {figures['memory'][policy]:.0f} |")
    if said.json:
        said.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
