"""The pages of all sites distributed over many addresses, with their links rewritten to the new places."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser

from benchmarks.sites import Site

SEED = b"1"
_HREF = re.compile(r"""(<(?:a|area|link)\b[^>]*?\bhref=)(["'])([^"'#]*)""", re.IGNORECASE)


def reachable(folder: Path) -> set[str]:
    """The HTML files of a folder that are reachable from its index page, as paths below the folder."""
    todo, found = ["index.html"], {"index.html"}
    while todo:
        path = todo.pop()
        for link in LexborHTMLParser((folder / path).read_bytes()).css("a[href]"):
            target = _target(path, link.attributes.get("href") or "")
            if target and target not in found and target.endswith(".html") and (folder / target).is_file():
                found.add(target)
                todo.append(target)
    return found


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


def _home(number: int, page: str, addresses: list[str]) -> str:
    return addresses[zlib.crc32(SEED + f"{number}/{page}".encode()) % len(addresses)]


def _led(text: str, page: str, urls: dict[str, str]) -> str:
    """The text of a page with absolute links."""

    def new(found: re.Match[str]) -> str:
        target = _target(page, found[3]) if found[3] else None
        return found[1] + found[2] + (urls.get(target, found[3]) if target else found[3])

    return _HREF.sub(new, text)


def _target(page: str, href: str) -> str | None:
    """The path below the folder that a link leads to; None if it leads elsewhere."""
    url = urldefrag(urljoin(f"http://site/{page}", href.strip())).url
    if not url.startswith("http://site/"):
        return None
    path = unquote(urlsplit(url).path).lstrip("/")
    return path + "index.html" if not path or path.endswith("/") else path
