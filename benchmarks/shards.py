"""The pages of all sites distributed over many addresses, with their links rewritten to the new places."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser

from benchmarks.sites import Site

SEED = b"1"
A_HOST = 7
"""Pages of a host in a web of thousands of hosts."""
SMALL = 16_000
"""The most bytes of a page in a web of small pages."""
STRANGERS = 5
_HREF = re.compile(r"""(<(?:a|area|link)\b[^>]*?\bhref=)(["'])([^"'#]*)""", re.IGNORECASE)


def reachable(folder: Path) -> set[str]:
    """The HTML files of a folder that are reachable from its index page, as paths below the folder."""
    todo, pages = ["index.html"], {"index.html"}
    while todo:
        path = todo.pop()
        for link in LexborHTMLParser((folder / path).read_bytes()).css("a[href]"):
            target = _target(path, link.attributes.get("href") or "")
            if target and target not in pages and target.endswith(".html") and (folder / target).is_file():
                pages.add(target)
                todo.append(target)
    return pages


def deal(sites: list[Site], addresses: list[str], base: str, folder: Path) -> list[str]:
    """Writes the pages to FOLDER/ADDRESS/SITE/..., the same page to the same address each time.

    `base` turns an address into the beginning of a URL. Returns the seeds: each site's index page, and a page of each
    address.
    """
    seeds: dict[str, str] = {}
    indexes = []
    for number, site in enumerate(sites):
        pages = sorted(reachable(site.folder))
        homes = {page: _home(number, page, addresses) for page in pages}
        urls = {page: f"{base.format(address)}/{number}/{page}" for page, address in homes.items()}
        indexes.append(urls["index.html"])
        for page in pages:
            text = (site.folder / page).read_text(encoding="utf-8", errors="surrogateescape")
            target = folder / homes[page] / str(number) / page
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(_led(text, page, urls), encoding="utf-8", errors="surrogateescape")
            seeds.setdefault(homes[page], urls[page])
    return list(dict.fromkeys([*indexes, *seeds.values()]))


def repeat(sites: list[Site], addresses: list[str], base: str, folder: Path, most: int | None) -> list[str]:
    """Writes `A_HOST` pages for each last byte of the addresses: hosts that share it have the same pages.

    Pages of more than `most` bytes are left out, unless that is None. The links of a page lead to the other pages of
    its host, and every `STRANGERS`th to another host. Returns a page of each address.
    """
    pages = [site.folder / page for site in sites for page in sorted(reachable(site.folder))]
    pages = [page for page in pages if most is None or page.stat().st_size <= most]
    url = base.format
    for number, last in enumerate(dict.fromkeys(address.rpartition(".")[2] for address in addresses)):
        (folder / last).mkdir(parents=True)
        for page in range(A_HOST):
            text = pages[(number * A_HOST + page) % len(pages)].read_text("utf-8", "surrogateescape")
            links = iter(range(page + 1, 1_000_000))

            def new(match: re.Match[str], links: Iterator[int] = links, number: int = number) -> str:
                link = next(links)
                host = "" if link % STRANGERS else url(addresses[(number * 7 + link * 11) % len(addresses)])
                return f"{match[1]}{match[2]}{host}/{link % A_HOST}.html"

            (folder / last / f"{page}.html").write_text(_HREF.sub(new, text), "utf-8", "surrogateescape")
    return [url(address) + "/0.html" for address in addresses]


def _home(number: int, page: str, addresses: list[str]) -> str:
    return addresses[zlib.crc32(SEED + f"{number}/{page}".encode()) % len(addresses)]


def _led(text: str, page: str, urls: dict[str, str]) -> str:
    """The text of a page with absolute links."""

    def new(match: re.Match[str]) -> str:
        target = _target(page, match[3]) if match[3] else None
        return match[1] + match[2] + (urls.get(target, match[3]) if target else match[3])

    return _HREF.sub(new, text)


def _target(page: str, href: str) -> str | None:
    """The path below the folder that a link leads to; None if it leads elsewhere."""
    url = urldefrag(urljoin(f"http://site/{page}", href.strip())).url
    if not url.startswith("http://site/"):
        return None
    path = unquote(urlsplit(url).path).lstrip("/")
    return path + "index.html" if not path or path.endswith("/") else path
