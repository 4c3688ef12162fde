"""Packs a crawl of a local web as WACZ and has it read by py-wacz, cdxj-indexer and pywb, which replays it.

make replay
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from benchmarks.command import ROOT, scrapy
from benchmarks.contender import PEERS, Contender
from benchmarks.servers import accepts, free_port, wait_until
from tests.crawls import crawl_hosts
from tests.web import LocalWeb, Reply, generated_web

SITES = ("127.0.1.1", "127.0.1.2")
TOOLS = PEERS / "replay" / "bin"


def main() -> int:
    """Returns 0 if all of them agree."""
    Contender("replay", "pywb, py-wacz and cdxj-indexer", lambda task: [], "replay").prepare()
    with tempfile.TemporaryDirectory() as name, LocalWeb(*SITES) as web:
        folder = Path(name)
        generated_web(11, web, pages=60)
        web.put(SITES[0], "/copy", "<p>the same")
        web.put(SITES[0], "/of", "<p>the same")
        seeds = [web.url(SITES[0]), web.url(SITES[0], "/copy"), web.url(SITES[0], "/of")]
        data = folder / "data"
        for crawl in ("first", "second"):  # the second archives no payload again
            crawl_hosts(seeds, folder, scope="web", timeout=120, CRAWL_ID=crawl)
            wacz = folder / f"{crawl}.wacz"
            run(*scrapy("export", "--format", "wacz", "-o", wacz, "--text", "--crawl", crawl, DATA_DIR=data))
            run(TOOLS / "wacz", "validate", "-f", wacz)
            print(
                f"pywb gave back {replay(folder, wacz, web)} pages of the {crawl} crawl as they were served."
            )
        compare_indexes(data / "warc")
    return 0


def run(*words: str | Path, folder: Path = ROOT) -> str:
    done = subprocess.run([*map(str, words)], cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode or "invalid" in done.stdout:
        raise SystemExit(f"{' '.join(map(str, words))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def compare_indexes(folder: Path) -> None:
    """Compares line by line; a missing media type counts as unk, as in pywb."""
    for warc in folder.glob("*.warc.gz"):
        ours = [fields(line) for line in warc.with_name(f"{warc.name[:-8]}.cdxj").read_text().splitlines()]
        theirs = [fields(line) for line in run(TOOLS / "cdxj-indexer", "-s", warc).splitlines()]
        if ours != theirs:
            pairs = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]]
            raise SystemExit(f"{len(ours)} and {len(theirs)} lines; the first that differ: {pairs[:3]}")
        print(f"cdxj-indexer gives the same {len(ours)} lines.")


def fields(line: str) -> tuple[str, str, dict[str, str]]:
    key, timestamp, facts = line.split(" ", 2)
    return key, timestamp, {"mime": "unk", **json.loads(facts)}


def replay(folder: Path, wacz: Path, web: LocalWeb) -> int:
    """The number of pages that pywb returns as they were served; SystemExit if one differs."""
    folder = folder / wacz.stem
    folder.mkdir()
    run(TOOLS / "wb-manager", "init", "crawl", folder=folder)
    run(TOOLS / "wb-manager", "add", "--unpack-wacz", "crawl", wacz, folder=folder)
    pages = {url: body for url in set(web.urls()) if (body := served(web, url)) is not None}
    with wayback(folder) as fetch:
        for url, body in pages.items():
            if (replayed := fetch(url)) != body:
                raise SystemExit(
                    f"{url} is replayed otherwise:\n{replayed[:500]!r}\ninstead of\n{body[:500]!r}"
                )
    return len(pages)


def served(web: LocalWeb, url: str) -> bytes | None:
    """The body of a page; None unless it is a plain response."""
    site = next(site for site in SITES if url.startswith(web.host(site)))
    page = web.sites[site].get(url.removeprefix(web.host(site)))
    if isinstance(page, Reply):
        page = None if page.abort or page.raw else page.body
    return page.encode() if isinstance(page, str) else page if isinstance(page, bytes) else None


@contextmanager
def wayback(folder: Path) -> Iterator[Callable[[str], bytes]]:
    """Runs pywb; yields a function that returns what it replays of a URL, without the links that it rewrites."""
    port = free_port("127.0.0.1")
    words = [TOOLS / "wayback", "-p", str(port), "-b", "127.0.0.1"]
    with (folder / "wayback.log").open("wb") as log:
        server = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log)

    def fetch(url: str) -> bytes:
        try:
            with urlopen(f"http://127.0.0.1:{port}/crawl/2026id_/{url}", timeout=20) as answer:
                return bytes(answer.read())
        except HTTPError as error:
            return error.read()

    try:
        wait_until(partial(accepts, "127.0.0.1", port), server, folder / "wayback.log")
        yield fetch
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
