"""The link store: what the links of real pages cost, and how long questions take.

make bench-links ARGS="--edges 1e6"
"""

from __future__ import annotations

import gc
import random
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.command import command_line, scrapy, seconds_of
from benchmarks.sites import available
from webcrawl.config import StoreConfig
from webcrawl.documents.document import Document
from webcrawl.documents.html.link_rows import LinkRows, pack_rows
from webcrawl.documents.html.outline import make_outline, pack, unpack
from webcrawl.links.entry import StoredLinks
from webcrawl.links.questions import linked_hosts, links_from, links_to
from webcrawl.links.sources import link_files
from webcrawl.links.store import LinkStore
from webcrawl.urls.reversed_hosts import reversed_host

LINKS_A_PAGE = 110
BARS = {"CPU a page of 110 links, ms": 0.4, "bytes a link": 20.0, "seconds": 1.0}
HOSTS = 2_000
PAGES = 400
ROUNDS = 5
START = 1_770_000_000_000_000
processor_time = partial(seconds_of, clock=time.process_time)


def documents(most: int) -> list[Document]:
    """HTML pages of the documentation that is installed, spread evenly."""
    chosen = []
    for site in available():
        paths = sorted(path for path in site.folder.rglob("*.html") if path.stat().st_size > 4_096)
        for path in paths[:: max(1, len(paths) // (most // 2))]:
            url = f"http://{site.address}/{path.relative_to(site.folder)}"
            chosen.append(Document(path.read_bytes(), "text/html", "utf-8", url))
    return chosen


def sent(pages: list[Document], *, link_rows: bool) -> tuple[list[bytes], float]:
    """What the process for HTML sends of pages without facts, and the processor time that takes after parsing."""
    made, seconds = [], 0.0
    for page in pages:
        assert page.html.root  # each page is parsed just before, as in that process
        began = time.process_time()
        if not link_rows:
            page.search()
        made.append(pack(make_outline(page, facts=False, simhash=False, link_rows=link_rows)))
        seconds += time.process_time() - began
        page.forget()
    return made, seconds


def cost(pages: list[Document]) -> None:
    """Prints the least processor time of each step in several rounds, and the bytes on disk."""
    gc.disable()  # the process for HTML has one page at a time, and here are hundreds
    bare, full = sent(pages, link_rows=False)[0], sent(pages, link_rows=True)[0]
    entries = [
        StoredLinks(page.url, "broad", 3, START + number * 50_000, False, (rows,))
        for number, (page, data) in enumerate(zip(pages, full, strict=True))
        if (rows := unpack(data, page).link_rows)
    ]
    steps: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(ROUNDS):
            links_folder = Path(folder) / str(number)
            store = LinkStore(links_folder, "broad")
            for name, work in {
                "found without": lambda: sent(pages, link_rows=False)[1],
                "found": lambda: sent(pages, link_rows=True)[1],
                "received without": lambda: processor_time(lambda: [*map(unpack, bare, pages)]),
                "received": lambda: processor_time(lambda: [*map(unpack, full, pages)]),
                "journal": lambda store=store: processor_time(
                    lambda: [store.write([entry]) for entry in entries]
                ),
                "Parquet": lambda store=store: processor_time(store.close),
            }.items():
                steps.setdefault(name, []).append(work())
        (file,) = links_folder.iterdir()
        links = sum(links_of(entry) for entry in entries)
        least = {name: min(values) * 1e3 * LINKS_A_PAGE / links for name, values in steps.items()}
        print(f"{len(pages):,} pages of documentation, {links / len(pages):.0f} links a page")
        for name in ("found", "received", "journal", "Parquet"):
            least[name] -= least.pop(f"{name} without", 0.0)
            report(f"{name}, ms for 110 links", least[name])
        report("CPU a page of 110 links, ms", sum(least.values()))
        report("bytes a link", file.stat().st_size / links)


def links_of(entry: StoredLinks) -> int:
    return sum(part.number for part in entry.unpacked())


def generated(edges: int) -> Iterator[StoredLinks]:
    """Pages of many hosts: each has 40 links of a menu, 50 to its site and 20 to others, few of them to many pages."""
    dice = random.Random(1)
    words = [f"word{number}" for number in range(5_000)]
    hosts = [f"https://www.site-{number}.example-{number % 97}.org" for number in range(HOSTS)]
    weights = [1 / (number + 1) for number in range(HOSTS)]
    for page in range(edges // LINKS_A_PAGE):
        (host,) = dice.choices(hosts, weights)
        targets = [f"{host}/section-{number}/" for number in range(40)]
        texts = [f"Section {number}" for number in range(40)]
        for number in dice.choices(range(20_000), k=50):
            targets.append(
                f"{host}/articles/2026/{number}/{words[number % 5000]}-of-{words[number % 777]}.html"
            )
            texts.append(f"{words[number % 5000]} of {words[number % 777]}")
        for other in dice.choices(hosts, weights, k=20):
            targets.append(f"{other}/" if page % 3 else f"{other}/articles/{dice.randrange(9_000)}")
            texts.append(" ".join(dice.choices(words, k=3)))
        rows = LinkRows(targets, texts, [""] * LINKS_A_PAGE, bytearray(LINKS_A_PAGE))
        rows.blocks.extend([7] * 40 + [8] * 50 + [9] * 20)
        url = f"{host}/articles/2026/{page}/{words[page % 5000]}-of-{words[page % 777]}.html"
        yield StoredLinks(url, "broad", page % 9, START + page * 10_000, False, (pack_rows(rows),))


def questions(folder: Path, edges: int) -> None:
    """Prints how long the commands take, and the answers without their start."""
    began = time.process_time()
    store, first = LinkStore(folder / "links", "broad"), ""
    for entry in generated(edges):
        first = first or entry.url
        store.write([entry])
    store.close()
    files = list((folder / "links").iterdir())
    size = sum(path.stat().st_size for path in files)
    print(f"{edges:,} generated links in {len(files)} files, in {time.process_time() - began:.0f} s of CPU")
    report("bytes a link", size / edges)
    config = StoreConfig(folder.as_uri(), "sqlite://", folder, links=(folder / "links").as_uri())
    openers = link_files(config).openers
    home, article = "https://www.site-0.example-0.org/", f"{first.partition('/articles')[0]}/section-7/"
    host = reversed_host(home)
    asked: list[tuple[str, list[str], Callable[[], Any]]] = [
        ("links on a page", [first], lambda: links_from(openers, [first])),
        ("links to a page of a menu", ["--in", article], lambda: links_to(openers, [article])),
        ("links to the most popular page", ["--in", home], lambda: links_to(openers, [home])),
        ("hosts that a host links to", ["--host", home], lambda: linked_hosts(openers, host)),
        (
            "hosts that link to a host",
            ["--host", "--in", home],
            lambda: linked_hosts(openers, host, inbound=True),
        ),
    ]
    for name, words, ask in asked:
        command, lines = scrapy("links", *words, STORE_URI=folder.as_uri()), len(ask())
        seconds = seconds_of(ask)
        whole = seconds_of(partial(subprocess.run, command, check=True, capture_output=True))
        print(f"  {name:38} {seconds:8.3f} s, {whole:.2f} s as a command, {lines:,} lines")


def report(name: str, value: float) -> None:
    """Prints a figure, with the bar that is meant to be reached."""
    print(f"  {name:38} {value:8.3f}" + (f"   bar {BARS[name]:g}" if name in BARS else ""), flush=True)


def main() -> None:
    options = command_line(__doc__, edges=1e7).parse_args()
    if pages := documents(PAGES):
        cost(pages)
        gc.enable()
    with tempfile.TemporaryDirectory() as folder:
        questions(Path(folder), int(options.edges))


if __name__ == "__main__":
    main()
