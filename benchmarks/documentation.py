"""Crawls real documentation behind nginx and compares the result with what is reachable in its files.

    python -m benchmarks.documentation [--kill worker|engine] [--workers N] [--times 3] [folder=/path/to/html ...]

Needs nginx and, by default, Debian's packages python3-doc and postgresql-doc-15. Each folder is a host of its own on
loopback, and so is a folder of generated files of all types that are read, complete and truncated. `--kill` kills the
crawl several times (SIGKILL) and restarts it; `engine` also kills the embedded Valkey. Prints two tables, the second by
type. The exit status is 1 if a page or file is missing, a valid file was not readable, or pages were fetched more often
than the kills explain.
"""

from __future__ import annotations

import argparse
import json
import mimetypes
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from tests.documents import mixed

FOLDERS = ["/usr/share/doc/python3-doc/html", "/usr/share/doc/postgresql-doc-15/html"]
PORT = 8099
# the elements whose links the `broad` spider follows
SOURCES = {"a": "href", "area": "href", "frame": "src", "iframe": "src"}
RELATIONS = {"canonical", "next", "prev", "alternate"}


class Links(HTMLParser):
    """The addresses of a page, found without any code of the crawler."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if "nofollow" in values.get("rel", "").lower().split():
            return
        if tag in SOURCES and SOURCES[tag] in values:
            self.found.append(values[SOURCES[tag]])
        if tag == "link" and RELATIONS & set(values.get("rel", "").lower().split()):
            self.found.append(values.get("href", ""))


def reachable(start: str, folder: Path) -> set[str]:
    """The URLs of HTML files that are reachable from the index page, computed from the files."""
    todo, found = [start], {start}
    while todo:
        url = todo.pop()
        parser = Links()
        parser.feed(file_of(url, folder).read_text(encoding="utf-8", errors="replace"))
        for link in parser.found:
            target = urldefrag(urljoin(url, link.strip())).url
            if urlsplit(target).netloc != urlsplit(start).netloc or target in found:
                continue
            if file_of(target, folder).is_file() and file_of(target, folder).suffix == ".html":
                found.add(target)
                todo.append(target)
    return found


def file_of(url: str, folder: Path) -> Path:
    path = unquote(urlsplit(url).path)
    return folder / (path.lstrip("/") + ("index.html" if path.endswith("/") else ""))


def write_mixed(folder: Path) -> dict[str, bool]:
    """Writes files of every type and an index page that links to them; returns the names of valid files."""
    folder.mkdir()
    good, cut = mixed()
    names = {}
    for name, (mime_type, body) in {**good, **cut}.items():
        subtype = mime_type.partition("/")[2].partition("+")[0]
        file = name if "." in name else name + (mimetypes.guess_extension(mime_type) or f".{subtype}")
        (folder / file).write_bytes(body)
        names[file] = name in good
    links = "".join(f"<a href={name}>{name}</a> " for name in names)
    (folder / "index.html").write_text(f"<title>Files of all types</title>{links}")
    return names


@contextmanager
def nginx(folders: list[Path], home: Path) -> Iterator[None]:
    """Runs nginx with one loopback address for each folder and one access log for each host."""
    servers = "".join(
        f"server {{ listen 127.0.1.{place}:{PORT}; root {folder}; index index.html; "
        f"access_log {home}/{place}.log timed; }}\n"
        for place, folder in enumerate(folders, 1)
    )
    (home / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; pid {home}/nginx.pid; error_log {home}/error.log;\n"
        "events { worker_connections 512; }\n"
        "http { include /etc/nginx/mime.types; default_type application/octet-stream; keepalive_requests 100000;\n"
        "log_format timed '$msec $request_time $status $request_uri';\n" + servers + "}\n"
    )
    server = subprocess.Popen(["nginx", "-c", str(home / "nginx.conf")])
    time.sleep(0.5)
    try:
        yield
    finally:
        server.terminate()
        server.wait()


def crawl(seeds: list[str], data: Path, workers: int) -> subprocess.Popen[bytes]:
    command = ["workers", str(workers), "broad"] if workers > 1 else ["crawl", "broad"]
    return subprocess.Popen(
        [sys.executable, "-m", "scrapy", *command, "-a", f"seeds={','.join(seeds)}", "-a", "scope=host"]
        + ["-s", "DOWNLOAD_DELAY=0", "-s", f"DATA_DIR={data}", "-s", "PROGRESS_INTERVAL=5"],
        start_new_session=True,
    )


def kill(process: subprocess.Popen[bytes], data: Path, engine: bool) -> int:
    """Kills a crawl and its engine; returns how many URLs were leased at that moment."""
    counts = subprocess.run(
        [sys.executable, "-m", "scrapy", "frontier", "--json", "-s", f"DATA_DIR={data}"], capture_output=True
    )
    if engine:
        for pid in engine_processes(data):
            os.kill(pid, signal.SIGKILL)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return int(json.loads(counts.stdout)["leased"]) if counts.returncode == 0 else 0


def engine_processes(data: Path) -> list[int]:
    """The keeper and the server of this data folder."""
    own = str((data / "engine").resolve()).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if own in line and (b"webcrawl.engine.keeper" in line or b"valkey-server" in line):
                found.append(int(entry.name))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    parser.add_argument("--kill", choices=("worker", "engine"))
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--every", type=float, default=4.0, help="seconds between start and kill")
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="documentation-"))
    home.chmod(0o755)  # nginx runs as another user
    files = write_mixed(home / "mixed")
    folders = [*(Path(folder).resolve() for folder in arguments.folders), home / "mixed"]
    seeds = [f"http://127.0.1.{place}:{PORT}/index.html" for place in range(1, len(folders) + 1)]
    expected = set().union(*(reachable(seed, folder) for seed, folder in zip(seeds, folders, strict=True)))
    leased = 0
    with nginx(folders, home):
        for _ in range(arguments.times if arguments.kill else 0):
            process = crawl(seeds, home / "data", arguments.workers)
            time.sleep(arguments.every)
            leased += kill(process, home / "data", arguments.kill == "engine")
        code = crawl(seeds, home / "data", arguments.workers).wait()
    good = report(home, folders, expected, leased) and code == 0
    good = report_types(home, {urljoin(seeds[-1], name): is_good for name, is_good in files.items()}) and good
    shutil.rmtree(home)
    return 0 if good else 1


def report(home: Path, folders: list[Path], expected: set[str], leased: int) -> bool:
    """Compares what was stored and what the server logged with what was expected."""
    rows = sqlite3.connect(home / "data" / "metadata.db")
    stored = [
        url for (url,) in rows.execute("select url from pages where status = 200 and mime_type = 'text/html'")
    ]
    hits: Counter[str] = Counter()
    for place in range(1, len(folders) + 1):
        for line in (home / f"{place}.log").read_text().splitlines():
            hits[f"http://127.0.1.{place}:{PORT}{line.split(maxsplit=3)[3]}"] += 1
    again = sum(hits[url] - 1 for url in expected if hits[url] > 1)
    warcs = sorted((home / "data" / "warc").glob("*.warc.gz"))
    broken = subprocess.run([Path(sys.executable).with_name("warcio"), "check", *warcs]).returncode
    summary = json.loads((home / "data" / "summary.json").read_text())
    print(f"reachable HTML pages   {len(expected)}")
    print(f"rows of HTML pages     {len(stored)}, each URL once: {len(stored) == len(set(stored))}")
    print(f"missing                {len(expected - set(stored))}")
    print(f"not expected           {len(set(stored) - expected)}")
    print(f"fetched again          {again} (leased at the kills: {leased})")
    print(f"WARC files             {len(warcs)}, {'broken' if broken else 'all whole'}")
    print(f"pages a second         {summary['pages_per_second']}")
    print(f"known from the cache   {summary['cache_hit_ratio']:.1%} of {summary['looked_up']:,} found URLs")
    return set(stored) == expected and again <= leased and not broken


def report_types(home: Path, files: dict[str, bool]) -> bool:
    """What was read of each type; whether all files were fetched, and the valid ones read."""
    rows = sqlite3.connect(home / "data" / "metadata.db")
    query = "select url, details is not null and processing_error is null from pages where status = 200"
    read = dict(rows.execute(query))
    missing = files.keys() - read.keys()
    unread = sorted(url for url, is_good in files.items() if is_good and not read.get(url))
    types: dict[str, Any] = json.loads((home / "data" / "summary.json").read_text())["types"]
    print(f"files of all types     {len(files)}, missing {len(missing)}, good ones not read {len(unread)}")
    print(*unread, sep="\n", end="\n" if unread else "")
    print(f"\n{'type':<74} {'pages':>8} {'bytes':>13} {'errors':>6}")
    for name, one in types.items():
        print(f"{name:<74} {one['pages']:>8,} {one['bytes']:>13,} {one['errors']:>6,}")
    return not missing and not unread


if __name__ == "__main__":
    sys.exit(main())
