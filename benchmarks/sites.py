"""The pages of the side-by-side benchmark: documentation from Debian packages behind nginx, on loopback addresses.

Each site is crawled whole: its pages lead to one another and hardly anywhere else, so that every contender gets the
same pages, whatever order it takes them in. What a contender got is read from nginx's log, the same for all.
"""

from __future__ import annotations

import functools
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from selectolax.lexbor import LexborHTMLParser

PORT = 18_463
START_ADDRESS = "127.0.2.1"
"""A site of one page without a link: crawling it costs what starting and ending costs."""
START_SECONDS = 10.0
DOCS = Path("/usr/share/doc")


@dataclass(frozen=True, slots=True)
class Site:
    """A folder of HTML pages, the Debian package that it is from, and the address that it is served at."""

    name: str
    package: str
    folder: Path
    address: str

    @property
    def there(self) -> bool:
        return (self.folder / "index.html").exists()


SITES = [
    Site("Python", "python3-doc", DOCS / "python3-doc/html", "127.0.1.1"),
    Site("PostgreSQL", "postgresql-doc-15", DOCS / "postgresql-doc-15/html", "127.0.1.2"),
    Site("The Rust book", "rust-doc", DOCS / "rust-doc/html/book", "127.0.1.3"),
    Site("The embedded Rust book", "rust-doc", DOCS / "rust-doc/html/embedded-book", "127.0.1.4"),
]
SCOPE = r"^https?://127\.0\.1\."
"""What a link of one of the sites looks like."""


@dataclass(frozen=True, slots=True)
class Got:
    """What one crawl fetched, as the server saw it.

    pages        distinct HTML pages answered with 200
    again        how often a page was asked for once more than needed
    other        requests besides: robots.txt, what is missing, what is no HTML
    seconds      from the first answer to the last
    kilobytes    mean size of a page
    links        mean number of `a` elements with href of a page
    connections  TCP connections, each with a handshake over HTTPS
    """

    pages: int
    again: int
    other: int
    seconds: float
    kilobytes: float
    links: float
    connections: int


def available(sites: Iterable[Site] = SITES) -> list[Site]:
    """The sites whose packages are installed; says which are not."""
    found = []
    for site in sites:
        if site.there:
            found.append(site)
        else:
            print(f"{site.name} is left out: apt install {site.package}")
    if not found or not shutil.which("nginx"):
        raise SystemExit(
            "The benchmark needs nginx and at least one of the packages: see benchmarks/README.md"
        )
    return found


class Web:
    """nginx with the sites, and its log."""

    def __init__(self, home: Path, sites: list[Site]) -> None:
        self._home = home
        self._sites = {site.address: site for site in sites}
        self.seeds = [f"http://{site.address}:{PORT}/index.html" for site in sites]
        self.start = f"http://{START_ADDRESS}:{PORT}/index.html"

    @contextmanager
    def served(self) -> Iterator[None]:
        """Have nginx run."""
        (self._home / "start").mkdir()
        (self._home / "start" / "index.html").write_text("<title>Start</title><p>One page without a link.")
        (self._home / "nginx.conf").write_text(self._configuration())
        server = subprocess.Popen(["nginx", "-c", str(self._home / "nginx.conf")])
        try:
            self._wait_for(server)
            yield
        finally:
            server.terminate()
            server.wait()

    def _wait_for(self, server: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection((START_ADDRESS, PORT), 1).close()
                if server.poll() is None:
                    return
            except OSError:
                pass
            if server.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"nginx does not start: {(self._home / 'error.log').read_text()}")
            time.sleep(0.1)

    def forget(self) -> None:
        """Empty the log."""
        (self._home / "access.log").write_bytes(b"")

    def got(self) -> Got:
        """What was fetched since the log was emptied."""
        times: list[float] = []
        hits: dict[tuple[str, str], int] = {}
        connections = set()
        other = size = links = 0
        for line in (self._home / "access.log").read_text().splitlines():
            moment, status, sent, kind, address, connection, path = line.split(maxsplit=6)
            times.append(float(moment))
            connections.add(connection)
            if status != "200" or not kind.startswith("text/html"):
                other += 1
                continue
            page = address, path
            hits[page] = hits.get(page, 0) + 1
            if hits[page] == 1:
                size += int(sent)
                links += _links(self._file(address, path))
        pages = max(len(hits), 1)
        return Got(
            len(hits),
            sum(hits.values()) - len(hits),
            other,
            round(max(times, default=0.0) - min(times, default=0.0), 3),
            round(size / pages / 1000, 1),
            round(links / pages, 1),
            len(connections),
        )

    def _file(self, address: str, path: str) -> Path:
        folder = self._sites[address].folder if address in self._sites else self._home / "start"
        return folder / (unquote(path).lstrip("/") + ("index.html" if path.endswith("/") else ""))

    def _configuration(self) -> str:
        roots = {site.address: site.folder for site in self._sites.values()}
        roots[START_ADDRESS] = self._home / "start"
        servers = "".join(
            f"server {{ listen {address}:{PORT}; root {folder}; index index.html; }}\n"
            for address, folder in roots.items()
        )
        return (
            f"daemon off; worker_processes 1; pid {self._home}/nginx.pid; error_log {self._home}/error.log;\n"
            "events { worker_connections 1024; }\n"
            "http { include /etc/nginx/mime.types; keepalive_requests 100000;\n"
            "log_format one '$msec $status $body_bytes_sent $sent_http_content_type $server_addr $connection $uri';\n"
            f"access_log {self._home}/access.log one;\n{servers}}}\n"
        )


@functools.lru_cache(maxsize=10_000)
def _links(page: Path) -> int:
    return len(LexborHTMLParser(page.read_bytes()).css("a[href]"))
