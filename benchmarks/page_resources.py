"""Measures what PAGE_RESOURCES costs: `python -m benchmarks.page_resources`.

Twenty sites of 26 pages; a page loads two pictures of its own, and a style sheet, a font and a script of its site.
"""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path

from tests.crawls import crawl_hosts
from tests.web import LocalWeb, Reply

SITES = [f"127.0.1.{number}" for number in range(1, 21)]
PAGES = 25
TURNS = 3
_PNG = b"\x89PNG\r\n\x1a\n" + bytes(3000)
_WORDS = "Some words of a page that is neither short nor long. " * 120


def main() -> None:
    """Prints one line for each crawl, without and with the option by turns."""
    with LocalWeb(*SITES) as web:
        for site in SITES:
            fill(web, site)
        print("resources  pages  fetched  CPU s  WARC bytes")
        for _ in range(TURNS):
            for option in (False, True):
                print(measured(web, option), flush=True)


def fill(web: LocalWeb, site: str) -> None:
    """Publishes the pages of a site and what they load."""
    head = "<link rel=stylesheet href=/s.css><script src=/s.js></script>"
    for number in range(PAGES):
        links = "".join(f"<a href=/p{(number * 3 + step) % PAGES}>x</a>" for step in range(20))
        pictures = "".join(f"<img src=/{number}{name}.png alt=x>" for name in "ab")
        body = f"<!doctype html><title>{site} {number}</title>{head}{pictures}{links}<p>{_WORDS}{number}"
        for path in (f"/p{number}", *(["/"] if number == 0 else [])):
            web.put(site, path, body)
        for name in "ab":
            web.put(site, f"/{number}{name}.png", _of("image/png", _PNG + f"{site}{number}{name}".encode()))
    web.put(site, "/s.css", _of("text/css", b"@font-face{font-family:own;src:url(/f.woff2)}"))
    web.put(site, "/f.woff2", _of("font/woff2", b"wOF2" + bytes(9000)))
    web.put(site, "/s.js", _of("text/javascript", b"let a = 1"))


def measured(web: LocalWeb, option: bool) -> str:
    """Crawls all sites once."""
    with tempfile.TemporaryDirectory() as folder:
        before = _cpu()
        result = crawl_hosts(
            [web.url(site) for site in SITES], Path(folder), timeout=300, PAGE_RESOURCES=option
        )
        seconds, summary = _cpu() - before, result.summary
        size = sum(path.stat().st_size for path in Path(folder).rglob("*.warc.gz"))
    fetched = summary["pages"] + summary["resources"]
    return f"{option!s:>9}  {summary['pages']:>5}  {fetched:>7}  {seconds:>5.1f}  {size:>10,}"


def _of(mime_type: str, body: bytes) -> Reply:
    return Reply(body, headers={"Content-Type": mime_type})


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
