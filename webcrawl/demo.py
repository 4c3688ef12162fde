"""A small web on loopback and a crawl of it: `python -m webcrawl.demo [--workers N] [arguments of webcrawl crawl]`.

`make crawl` without SEEDS runs it, so that a first crawl works offline. It serves three sites on three ports of
127.0.0.1 with about sixty pages, always the same. Among them are typical cases of the web: a folder that robots.txt
disallows, a redirect, a duplicate, a near-duplicate, a dead link, an image, a slow page, and a page without an answer.
"""

from __future__ import annotations

import errno
import random
import signal
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from webcrawl.config.libraries import install_command, is_installed
from webcrawl.errors import CrawlError

SITES = ("The Handbook", "The Journal", "The Gallery")
FIRST_PORT = 8771
PORT_TRIALS = 50
ARTICLES = 17
SLOW_SECONDS = 2.0
SILENT_SITE = 2
"""The site with a page that becomes a dead letter."""

_ROBOTS = "User-agent: *\nDisallow: /private/\n"
_WORDS = """
a some every one the that first last old new quiet careful distant patient open honest crawler page link host server
robot queue frontier archive index seed garden river harbour letter signal window paper morning winter reads follows
keeps visits finds stores leaves asks waits returns writes counts remembers slowly politely again often never always
there here before after between beyond
"""
# the smallest GIF: one transparent pixel
_PIXEL = bytes.fromhex(
    "47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b"
)


@dataclass(frozen=True)
class DemoResponse:
    """The response to one path; `delay` is in seconds. A status of 0 closes the connection without a response."""

    body: bytes
    status: int = 200
    mime_type: str = "text/html; charset=utf-8"
    delay: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)


def demo_pages(site: int, origins: Sequence[str]) -> dict[str, DemoResponse]:
    """Path -> response of one site; `origins`: of all sites, such as "http://127.0.0.1:8771"."""
    paths = [f"/article/{number}.html" for number in range(1, ARTICLES + 1)]
    special = ["/moved", "/copy.html", "/print.html", "/slow.html", "/gone.html", "/private/diary.html"]
    silent = {"/silent.html": DemoResponse(b"", status=0)} if site == SILENT_SITE else {}
    home = [*silent, *paths, *special, *(f"{origin}/" for origin in origins)]
    pages = {"/": _html(SITES[site], _prose(f"{site} home"), home)}
    for number, path in enumerate(paths):
        neighbours = ["/", paths[number - 1], paths[(number + 5) % ARTICLES], f"{origins[site - 1]}{path}"]
        title = f"{SITES[site]}, article {number + 1}"
        pages[path] = _html(title, _prose(f"{site} {number}"), neighbours, image="/pixel.gif")
    first = pages[paths[0]]
    return (
        pages
        | silent
        | {
            "/robots.txt": DemoResponse(_ROBOTS.encode(), mime_type="text/plain"),
            "/moved": DemoResponse(b"", status=301, headers={"Location": paths[-1]}),
            "/copy.html": first,
            # the same words in another template
            "/print.html": DemoResponse(first.body.replace(b"<body>", b'<body class="print">')),
            "/slow.html": DemoResponse(_html("Slow", _prose(f"{site} slow"), ["/"]).body, delay=SLOW_SECONDS),
            "/private/diary.html": _html("Private", "No crawler should read this.", ["/"]),
            "/pixel.gif": DemoResponse(_PIXEL, mime_type="image/gif"),
        }
    )


@contextmanager
def demo_web(first_port: int = FIRST_PORT) -> Iterator[list[str]]:
    """Serves the demo web while the context is open; yields the URLs of its home pages.

    It uses the three ports from `first_port` on if they are free, so that a second crawl finds the same URLs;
    otherwise the next three free ports.
    """
    with ExitStack() as stack:
        servers = [stack.enter_context(server) for server in _servers(first_port)]
        origins = [f"http://127.0.0.1:{server.server_port}" for server in servers]
        for site, server in enumerate(servers):
            server.pages = demo_pages(site, origins)
            threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
            stack.callback(server.shutdown)
        yield [f"{origin}/" for origin in origins]


def demo_settings() -> dict[str, str]:
    """Returns the settings of the demo: short delays, and all stores whose libraries are installed."""
    stores = {"LINKS": "True", "TEXT": "parquet"} if is_installed("parquet") else {"TEXT": "wet"}
    return {"DOWNLOAD_DELAY": "0.05", "FRONTIER_RETRY_DELAY": "0.5", "FRONTIER_MAX_ATTEMPTS": "2", **stores}


def main(arguments: Sequence[str] | None = None) -> int:
    """Crawls the demo web; returns the exit status of the crawl."""
    parser = ArgumentParser(
        prog="python -m webcrawl.demo", description="Crawl a small web served on loopback."
    )
    parser.add_argument("--workers", type=int, default=1, help="number of worker processes (default: 1)")
    options, others = parser.parse_known_args(arguments)
    with demo_web() as seeds:
        print(f"The demo web: {', '.join(seeds)}", flush=True)
        if not is_installed("parquet"):
            print(f"Links are not stored. To store them: {install_command(['parquet'])}", flush=True)
        command = ["workers", str(options.workers)] if options.workers > 1 else ["crawl"]
        # options of the caller come last and take precedence
        command += ["broad", "-a", f"seeds={','.join(seeds)}", "-a", "scope=host"]
        command += ["-s", "DATA_DIR=data/demo"]
        command += [word for name, value in demo_settings().items() for word in ("-s", f"{name}={value}")]
        command += others
        return _run([sys.executable, "-m", "webcrawl.console", *command])


class _Site(ThreadingHTTPServer):
    """One site of the demo web; unknown paths get a 404."""

    daemon_threads = True
    pages: Mapping[str, DemoResponse]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # a response takes two writes; with Nagle's algorithm the second would wait for an acknowledgement
    disable_nagle_algorithm = True
    server: _Site

    def do_GET(self) -> None:
        missing = DemoResponse(b"<title>Not found</title>", status=404)
        answer = self.server.pages.get(self.path, missing)
        time.sleep(answer.delay)
        if not answer.status:
            self.close_connection = True
            return
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.mime_type)
        self.send_header("Content-Length", str(len(answer.body)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: the terminal shows the crawl."""


def _servers(first_port: int) -> list[_Site]:
    """Three servers, bound to the first three consecutive free ports."""
    for port in range(first_port, first_port + PORT_TRIALS * len(SITES), len(SITES)):
        with ExitStack() as stack:
            try:
                bound = [
                    stack.enter_context(_Site(("127.0.0.1", port + site), _Handler))
                    for site in range(len(SITES))
                ]
            except OSError as error:
                if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                    raise
                continue
            stack.pop_all()
            return bound
    raise CrawlError(
        f"the demo needs three consecutive free ports on 127.0.0.1, and found none from {first_port} on"
    )


def _run(command: Sequence[str]) -> int:
    """Runs the crawl in this terminal and ignores Ctrl-C, which the crawl receives too."""
    signal.signal(signal.SIGINT, lambda *_: None)
    child = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    return child.wait()


def _prose(seed: str) -> str:
    """About 400 words, always the same for the same seed."""
    dice = random.Random(seed)
    words = _WORDS.split()
    sentences = (" ".join(dice.choices(words, k=dice.randint(6, 16))).capitalize() for _ in range(36))
    return ". ".join(sentences) + "."


def _html(title: str, prose: str, links: Sequence[str], image: str = "") -> DemoResponse:
    items = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    picture = f'<a href="{image}"><img src="{image}" alt=""></a>' if image else ""
    head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
    body = f"<body><h1>{title}</h1><p>{prose}</p>{picture}<ul>{items}</ul></body></html>"
    return DemoResponse((head + body).encode())


if __name__ == "__main__":
    sys.exit(main())
