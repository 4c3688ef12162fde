"""The web of the benchmark of traps: honest sites and the endless ones.

The honest sites are host0.example0.test, host1.example1.test and so on; the last ten share one address. The others are
www.calendar.test, www.session.test and so on, any name under subdomains.test, and the addresses of the farm. Each name
is a registered domain of its own. All honest sites link to an honest forum, www.forum.test, if it has threads, and to a
deep site, www.deep.test, if its levels have pages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from benchmarks.generated_web import mixed, share
from benchmarks.trap_sites import LEVELS, TRAPS, Asked, deep, forum, html, prose

HOSTS, SHARING = 50, 10
"""Honest hosts, and how many of them are at one address."""
LARGEST, SMALLEST = 10, 200
"""The largest honest site has a tenth of the crawl's pages, the smallest a 200th; all have 1.6 times as many."""
CHILDREN, CROSS_LINKS, OUTWARD = 8, 4, 0.05
"""Links of a page to its children and to any pages of its site; usually, the share of pages with one to another."""


class TrapWeb:
    """All sites. `pages` is the number of pages that the crawl may have; the sizes of the sites follow from it.

    Only the process that serves the pages knows which exist: their paths have words of the documentation, which may be
    edited during a crawl.

    `hosts` honest sites link to each of `traps` on two pages, and to each other on a share `outward` of all pages.
    """

    def __init__(
        self,
        port: int,
        pages: int = 20_000,
        *,
        hosts: int = HOSTS,
        traps: Sequence[str] = tuple(TRAPS),
        outward: float = OUTWARD,
        threads: int = 0,
        wide: int = 0,
    ) -> None:
        self.port = port
        self.pages = pages
        self.threads = threads
        self.wide = wide
        self.hosts = hosts
        self.traps = traps
        self.outward = outward
        shares = [(SMALLEST / LARGEST) ** ((rank + 0.5) / hosts) for rank in range(hosts)]
        least = pages * HOSTS / max(hosts, 1) / SMALLEST
        self.sizes = [max(4, round(least * size)) for size in shares]
        self._spam: dict[tuple[int, int], str] = {}
        """Honest site and page -> the start page of the trap that it links to."""
        for number, trap in enumerate(traps if hosts else ()):
            for page in (2, 3):
                self._spam[(7 * number + 5 * page) % hosts, page] = self.start(trap)

    @property
    def honest_pages(self) -> int:
        """The pages of all honest hosts."""
        return sum(self.sizes)

    @property
    def whole(self) -> dict[str, int]:
        """Name of the honest sites -> pages."""
        sites = {"honest hosts": self.honest_pages}
        if self.threads:
            sites["forum"] = 1 + -(-self.threads // 50) + self.threads
        if self.wide:
            sites["deep"] = 1 + self.wide * LEVELS
        return sites

    def start(self, site: str | int) -> str:
        """Returns the first page of a trap by its name, or of an honest site by its number."""
        name = f"www.{site}.test" if isinstance(site, str) else f"host{site}.example{site}.test"
        return f"http://{name}:{self.port}/"

    def address(self, name: str) -> bytes | None:
        """Returns the IPv4 address of a name, None if it does not exist."""
        if honest := re.fullmatch(r"host(\d+)\.example\1\.test", name):
            number = min(int(honest[1]), self.hosts - min(SHARING, self.hosts // 5))
            return bytes([127, 30, number >> 8, number & 255])
        sites = list(TRAPS)
        site = name.removesuffix(".test").rpartition(".")[2]
        if site in self.whole and name == f"www.{site}.test":
            return bytes([127, 31, 1, site == "deep"])
        if name != f"www.{site}.test" and site != "subdomains" or site not in sites:
            return None
        return bytes([127, 31, 0, sites.index(site)])

    def page(self, host: str, path: str) -> str | None:
        """Returns a page, None if there is none."""
        if path == "/robots.txt":
            return None
        asked = Asked(host, self.port, path)
        if host.startswith("host"):
            return self._honest(int(host[4 : host.index(".")]), asked)
        if not host.endswith(".test"):
            return TRAPS["farm"].page(asked)
        site = host.removesuffix(".test").rpartition(".")[2]
        if site == "deep":
            return deep(self.wide, asked)
        return forum(self.threads, asked) if site == "forum" else TRAPS[site].page(asked)

    def _honest(self, host: int, asked: Asked) -> str | None:
        page, size = asked.number, self.sizes[host]
        if page >= size or asked.path != self._path(host, page):
            return None
        bits = mixed(host, page, 5)
        near = [*range(CHILDREN * page + 1, min(CHILDREN * page + CHILDREN + 1, size)), page // CHILDREN, 0]
        near += [mixed(bits, number) % size for number in range(CROSS_LINKS)]
        links = [self._path(host, other) for other in near]
        if share(mixed(bits, 6)) < self.outward:
            other = int(self.hosts * share(mixed(bits, 7)) ** 2)
            target = mixed(bits, 8) % self.sizes[other] if bits & 1 else 0
            links.append(self.start(other) + self._path(other, target)[1:])
        if spam := self._spam.get((host, page)):
            links.append(spam)
        if not page:
            links += [self.start(site) for site in self.whole if site in ("forum", "deep")]
        title = " ".join(prose().words(4, bits, 9))
        return html(title, f"Site {host}. {prose().phrases(20, bits)}", links)

    def _path(self, host: int, page: int) -> str:
        """Sites have paths of four kinds."""
        if not page:
            return "/"
        slug = "-".join(prose().words(3, host, page))
        return (
            f"/articles/{page}.html",
            f"/news/{slug}-{page}",
            f"/index.php?id={page}",
            f"/{2010 + page % 16}/{page % 12 + 1:02}/{slug}/{page}",
        )[host % 4]
