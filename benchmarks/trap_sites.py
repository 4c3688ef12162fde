"""The endless sites of the benchmark of traps, and pages of real words. A URL always gets the same page.

A new one is a function that returns a page, and an entry in TRAPS with its name and a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xxhash import xxh3_64_intdigest

from benchmarks.generated_web import mixed
from benchmarks.servers import PageWeb, serve_pages

DOCS = Path(__file__).resolve().parent.parent / "docs"
ARTICLES, PRODUCTS, NEW_NAMES, NEW_ADDRESSES, RANDOM_LINKS = 30, 200, 10, 12, 20
LEVELS = 60
FACETS = {"color": 8, "size": 6, "brand": 12, "price": 5, "material": 6}


class Prose:
    """Text of real words, from this project's documentation."""

    def __init__(self) -> None:
        text = " ".join(path.read_text() for path in sorted(DOCS.rglob("*.md")))
        self._words = re.findall(r"\b[a-z]{2,14}\b", text)

    def phrases(self, number: int, *key: int) -> str:
        """Returns so many phrases of eight words, as they are in the documentation."""
        starts = (mixed(*key, start) % (len(self._words) - 8) for start in range(number))
        return ". ".join(" ".join(self._words[start : start + 8]) for start in starts)

    def words(self, number: int, *key: int) -> list[str]:
        """Returns so many single words."""
        return [self._words[mixed(*key, index) % len(self._words)] for index in range(number)]


prose = cache(Prose)


async def serve_prose(web: PageWeb, dns: int, file: Path, ready: Callable[[], None]) -> None:
    """Serves a web like `serve_pages`; the documentation is read before, so that no request waits for it."""
    prose()
    await serve_pages(web, dns, file, ready)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: the host without the port, the port, path with query, and 64 bits of both."""

    host: str
    port: int
    path: str

    @property
    def bits(self) -> int:
        return xxh3_64_intdigest(f"{self.host}{self.path}".encode())

    @property
    def number(self) -> int:
        """The last number in the path, 0 without one."""
        numbers: list[str] = re.findall(r"\d+", self.path)
        return int(numbers[-1]) if numbers else 0


def html(title: str, text: str, links: Iterable[str]) -> str:
    anchors = "\n".join(f'<a href="{url}">more</a>' for url in links)
    return f"<!doctype html><html lang=en><title>{title}</title>\n<p>{text}.</p>\n{anchors}</html>"


def calendar(asked: Asked) -> str:
    """Months with the months around them, and their days with the days around them; no day has an event."""
    year, month, day = (int(part) for part in ([*re.findall(r"\d+", asked.path), "0", "0", "0"])[:3])
    at = (year or 2026) * 12 + max(month, 1) - 1
    months = [f"/calendar/{near // 12}/{near % 12 + 1:02}" for near in (at - 1, at, at + 1)]
    days = (day - 1, day + 1) if day else range(1, 31)
    date = f"{at // 12}-{at % 12 + 1:02}" + (f"-{day:02}" if day else "")
    text = f"Events of {date}. There are no events in this period. {prose().phrases(12, 1)}"
    return html(f"Calendar {date}", text, [*months, *(f"{months[1]}/{near:02}" for near in days)])


def session(asked: Asked) -> str:
    """Articles whose links have a new session id on each page: one half in the path, the other in the query."""
    number, sid = (
        asked.number % ARTICLES if "articles" in asked.path else 0,
        f"{asked.bits:016x}{mixed(asked.bits):016x}",
    )
    if article := re.search(r"/articles/(\d+)", asked.path):
        number = int(article[1]) % ARTICLES
    others = [mixed(number, index) % ARTICLES for index in range(10)]
    in_path = [f"/s/{sid}/articles/{other}" for other in others]
    in_query = [f"/articles/{other}?sid={sid}" for other in others]
    links = {"/s": in_path, "/a": in_query}.get(asked.path[:2], [*in_path, *in_query])
    return html(f"Article {number}", prose().phrases(20, 2, number), links)


def has(product: int, facet: str, value: int) -> bool:
    return mixed(product, xxh3_64_intdigest(facet.encode())) % FACETS[facet] == value


def facets(asked: Asked) -> str:
    """A shop whose lists can be filtered by any values of five properties, in any order, sorted and paged."""
    path, _, query = asked.path.partition("?")
    if path.startswith("/product/"):
        near = [f"/product/{mixed(asked.number, index) % PRODUCTS}" for index in range(3)]
        text = f"Product {asked.number}. {prose().phrases(15, 3, asked.number)}"
        return html(f"Product {asked.number}", text, ["/shop", *near])
    chosen = {
        name: int(value) for name, _, value in (part.partition("=") for part in query.split("&")) if name
    }
    filters = {name: value for name, value in chosen.items() if name in FACETS}
    matching = [n for n in range(PRODUCTS) if all(has(n, *facet) for facet in filters.items())]
    matching.sort(key=lambda product: mixed(product, chosen.get("sort", 0)))
    first = 10 * chosen.get("page", 0)
    listed = matching[first : first + 10]
    text = (
        ". ".join(f"Product {product} {prose().phrases(1, 3, product)}" for product in listed)
        or "Nothing was found"
    )
    links = [f"/product/{product}" for product in listed]
    steps = [(name, mixed(asked.bits, index) % most) for index, (name, most) in enumerate(FACETS.items())]
    steps += [("sort", mixed(asked.bits, 8) % 4)]
    steps += [("page", page) for page in range(1, (len(matching) + 9) // 10)]
    for index, (name, value) in enumerate(steps):
        parts = [f"{facet}={old}" for facet, old in chosen.items() if facet not in (name, "page")]
        parts.insert(mixed(asked.bits, 9, index) % (len(parts) + 1), f"{name}={value}")
        links.append("/shop?" + "&".join(parts))
    return html("Products", text, links)


def repeat(asked: Asked) -> str:
    """Relative links that lead a folder deeper each time, to one of five pages."""
    names = ("a", "news", "team", "archive", "contact")
    last = asked.path.rstrip("/").rpartition("/")[2]
    number = names.index(last) if last in names else 0
    return html(f"{names[number]} page", prose().phrases(20, 4, number), [f"{name}/" for name in names])


def subdomains(asked: Asked) -> str:
    """Pages of random words that link to ten new names each, all at one address."""
    names = (f"n{mixed(asked.bits, index):012x}.subdomains.test" for index in range(NEW_NAMES))
    text = " ".join(prose().words(120, asked.bits))
    return html(asked.host, text, [f"http://{name}:{asked.port}/" for name in names])


def farm(asked: Asked) -> str:
    """Pages of random words that link to twelve new addresses each, none of them in the network of another."""
    bits = (mixed(asked.bits, index) for index in range(NEW_ADDRESSES))
    addresses = (f"127.{64 + (n >> 16) % 128}.{(n >> 8) % 256}.{n % 256}" for n in bits)
    text = " ".join(prose().words(120, asked.bits))
    return html(asked.host, text, [f"http://{address}:{asked.port}/" for address in addresses])


def forum(threads: int, asked: Asked) -> str | None:
    """An honest site: lists of fifty threads each, and so many threads, which link to the first page."""
    lists = [f"/list/{first}" for first in range(0, threads, 50)]
    listed = [f"/thread/{n}" for n in range(asked.number, min(asked.number + 50, threads))]
    links = {"/": lists, **dict.fromkeys(lists, listed)}
    if asked.path not in links and not (asked.path.startswith("/thread/") and asked.number < threads):
        return None
    return html(asked.path, prose().phrases(20, asked.bits), ["/", *links.get(asked.path, ())])


def deep(wide: int, asked: Asked) -> str | None:
    """An honest site: a page links to two of the next level, down to the last level; levels have so many pages."""
    level, number = (int(part) for part in re.findall(r"\d+", asked.path + "/0/0")[:2])
    if level > LEVELS or number >= wide or asked.path != (f"/part/{level}/{number}" if level else "/"):
        return None
    near = {number, asked.bits % wide} if level else range(wide)
    links = [f"/part/{level + 1}/{other}" for other in near] if level < LEVELS else []
    return html(asked.path, prose().phrases(20, asked.bits), links)


def random(asked: Asked) -> str:
    """Pages of random words that link only to further ones."""
    links = ("/" + "-".join(prose().words(4, asked.bits, index)) for index in range(RANDOM_LINKS))
    return html(
        " ".join(prose().words(5, asked.bits, 98)), " ".join(prose().words(120, asked.bits, 99)), links
    )


@dataclass(frozen=True, slots=True)
class Trap:
    """An endless site: a sentence about it, and its page of any path but /robots.txt."""

    sentence: str
    page: Callable[[Asked], str]


TRAPS = {
    "calendar": Trap("Months and days without events", calendar),
    "session": Trap("30 articles under a new session id on each page", session),
    "facets": Trap("A shop of 200 products with filters in any order", facets),
    "repeat": Trap("Relative links that repeat the path", repeat),
    "subdomains": Trap("Links to new names, all at one address", subdomains),
    "farm": Trap("Links to new addresses, each a host of its own", farm),
    "random": Trap("Random words that link only to themselves", random),
}
"""The traps by name."""
