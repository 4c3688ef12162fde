"""The web of a chaos run: pages with random links, all of which can be reached."""

from __future__ import annotations

import random

from tests.web import LocalWeb, Reply

SEEDS = 20


def tangled_web(dice: random.Random, web: LocalWeb, pages: int) -> set[str]:
    """Publishes `pages` pages that can all be reached from the first SEEDS of them; returns their URLs.

    Most answer at once; some take up to half a second. No two pages have the same text.
    """
    labels = sorted(web.sites)
    paths = [(labels[n % len(labels)], "/" if n < len(labels) else f"/p{n}.html") for n in range(pages)]
    urls = [web.url(label, path) for label, path in paths]
    links = [[dice.choice(urls) for _ in range(dice.randrange(6))] for _ in urls]
    for number in range(1, pages):
        # from an early page, because a chain of pages would be crawled one by one
        links[dice.randrange(number // 4 + 1)].append(urls[number])
    for (label, path), url, targets in zip(paths, urls, links, strict=True):
        words = " ".join(f"{dice.getrandbits(40):08x}" for _ in range(60))
        anchors = "".join(f'<a href="{target}">{target}</a>\n' for target in targets)
        slow = dice.random() < 0.1
        body = f"<title>{url}</title><p>{words}</p>{anchors}"
        web.put(label, path, Reply(body, delay=dice.uniform(0, 0.5 if slow else 0.02)))
    return set(urls)
