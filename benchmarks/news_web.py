"""A web of news on loopback: front pages and sections that list the latest articles, which appear over a day.

Hosts are www.news0.test, www.news1.test and so on. A host has a front page and SECTIONS sections, which are its hubs. A
section lists its latest articles, the front page those of all sections, and both link to the other hubs. An article
links to its section and to the articles before it. How often articles appear in a section follows a power law.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from benchmarks.trap_sites import html, prose

SECTIONS = 4
LISTED = 40
"""Articles on a hub."""
EARLIER = 3
"""Links of an article to those before it."""
EXPONENT = 0.7
ARCHIVE = 10
"""The articles of a section when the day begins."""


class Article(NamedTuple):
    """Its place and when it appears, in seconds of the day; below 0 for those of the archive."""

    host: int
    section: int
    number: int
    appears: float

    @property
    def path(self) -> str:
        return f"/section{self.section}/story-{self.number}.html"


class NewsWeb:
    """All sites: `hubs` on a fifth as many hosts, and so many articles that appear within `day` seconds."""

    def __init__(self, port: int, hubs: int, articles: int, day: float) -> None:
        self.port, self.day = port, day
        self.hosts = max(1, hubs // (SECTIONS + 1))
        random, sections = np.random.default_rng(1), self.hosts * SECTIONS
        shares = (random.permutation(sections) + 1.0) ** -EXPONENT
        of_section = random.multinomial(articles, shares / shares.sum())
        self.sections = {
            divmod(place, SECTIONS): [
                Article(*divmod(place, SECTIONS), rank, appears)
                for rank, appears in enumerate(
                    [-1.0] * ARCHIVE + sorted(random.uniform(0, day, number).tolist())
                )
            ]
            for place, number in enumerate(of_section.tolist())
        }
        self.fronts = [
            sorted(
                (article for section in range(SECTIONS) for article in self.sections[host, section]),
                key=lambda article: article.appears,
            )
            for host in range(self.hosts)
        ]

        self._began = 0.0

    def seed(self, host: int) -> str:
        """Returns the front page of a host."""
        return f"http://www.news{host}.test:{self.port}/"

    def address(self, name: str) -> bytes | None:
        """Returns the IPv4 address of a name, None if it does not exist."""
        known = re.fullmatch(r"www\.news(\d+)\.test", name)
        return bytes([127, 40, int(known[1]) >> 8, int(known[1]) & 255]) if known else None

    def articles(self) -> dict[str, float]:
        """Returns the articles that appear, as the log names them -> seconds of the day."""
        return {
            f"www.news{article.host}.test:{self.port} {article.path}": article.appears
            for front in self.fronts
            for article in front
            if article.appears >= 0
        }

    def page(self, host: str, path: str) -> str | None:
        """Returns a page at this time. The day begins with the first request."""
        self._began = self._began or time.monotonic()
        return self.page_at(int("".join(filter(str.isdigit, host))), path, time.monotonic() - self._began)

    def page_at(self, host: int, path: str, now: float) -> str | None:
        """Returns a page in this second of the day, None if there is none yet."""
        hubs = ["/", *(f"/section{section}/" for section in range(SECTIONS))]
        if path in hubs:
            listed = self.fronts[host] if path == "/" else self.sections[host, hubs.index(path) - 1]
            known = bisect_right(listed, now, key=lambda article: article.appears)
            latest = listed[max(0, known - LISTED) : known][::-1]
            titles = ". ".join(_title(article) for article in latest)
            return html(f"News {host} {path}", titles, [*hubs, *(article.path for article in latest)])
        story = re.fullmatch(r"/section(\d)/story-(\d+)\.html", path)
        of_section = self.sections.get((host, int(story[1])), []) if story else []
        if not story or int(story[2]) >= len(of_section) or of_section[int(story[2])].appears > now:
            return None
        article = of_section[int(story[2])]
        earlier = of_section[max(0, article.number - EARLIER) : article.number]
        text = prose().phrases(15, host, article.section, article.number)
        links = [hubs[0], hubs[article.section + 1], *(before.path for before in earlier)]
        return html(_title(article), text, links)


def _title(article: Article) -> str:
    return prose().phrases(1, *article[:3])
