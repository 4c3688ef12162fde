"""Two sites with sections that are wanted, because their pages have long texts, and sections that are not."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from tests.web import LocalWeb

SITES = ("127.0.3.1", "127.0.3.2")
LINKS = 8
# for each site, how the URLs of its sections look, with the number of a page; sections of one kind are equally large
WANTED = {
    SITES[0]: ("/articles/{}/", "/guides/part-{}.html"),
    SITES[1]: ("/item/{}", "/wiki/{}/read"),
}
UNWANTED = {
    SITES[0]: ("/users/{}/", "/tags/topic-{}.html"),
    SITES[1]: ("/item/{}/edit", "/list?sort=new&start={}"),
}


def fill(web: LocalWeb, pages: int, seed: int = 1) -> list[str]:
    """Publishes `pages` pages, half of them wanted; returns the URLs of the start pages.

    Each page links to others of its site at random, the start page to some of all sections.
    """
    dice = random.Random(seed)
    seeds = []
    for site in SITES:
        each = pages // len(SITES) // 4
        sections = [*WANTED[site], *UNWANTED[site]]
        paths = [section.format(number) for number in range(each) for section in sections]
        long = {section.format(number) for number in range(each) for section in WANTED[site]}
        # each page is found from one before it, and all further links are random
        parents = {path: paths[dice.randrange(index)] for index, path in enumerate(paths) if index}
        children: dict[str, list[str]] = {}
        for path, parent in parents.items():
            children.setdefault(parent, []).append(path)
        for path in paths:
            links = [*children.get(path, ()), *dice.choices(paths, k=LINKS)]
            web.put(site, path, page(dice, path, links, words=300 if path in long else 15))
        seeds.append(web.put(site, "/", page(dice, "/", paths[:LINKS], words=15)))
    return seeds


def page(dice: random.Random, title: str, links: Sequence[str], *, words: int) -> str:
    """Returns a page of so many words, more or less, which no other page has."""
    text = " ".join(
        f"{dice.getrandbits(36):07x}" for _ in range(dice.randint(words * 2 // 3, words * 4 // 3))
    )
    anchors = "".join(f'<li><a href="{link}">{link}</a>' for link in links)
    return (
        f"<!doctype html><title>{title}</title><article><p>{text}.</p></article><nav><ul>{anchors}</ul></nav>"
    )


def first_half(rows: Sequence[Mapping[str, Any]]) -> float:
    """Returns the part of the value of all pages that the first half of the fetches had; each row has `value`."""
    order = sorted(rows, key=lambda row: str(row["fetched_at"]))
    values = [float(row["value"]) for row in order]
    return sum(values[: len(values) // 2]) / sum(values)
