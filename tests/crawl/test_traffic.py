"""Each class of fetches gets its share of a crawl that has work in all of them at once (TRAFFIC)."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable

import pytest
import redis

from tests.crawls import Crawl, until
from tests.web import Hit, LocalWeb, Reply
from webcrawl.policies.traffic import CLASSES

SHARES = {"coverage-get": 40, "freshness-get": 25, "coverage-chk": 5, "freshness-chk": 10, "update-chk": 20}
HUBS = ("/", *(f"/section{n}/" for n in range(1, 6)))
NEW, LISTED = 30, 60
ITEMS, LOST = 60, 150


def page(seed: str, *links: str) -> Reply:
    """A page with links and a text of its own, by its seed."""
    source = random.Random(seed)
    words = ("".join(source.choices("abcdefghilmnoprstu", k=source.randint(3, 9))) for _ in range(80))
    listed = "".join(f"<a href={link}>{link}</a>" for link in links)
    return Reply(f"<html><body>{listed}<main><p>{' '.join(words)}.</p></main></body></html>", delay=0.05)


class AllClasses:
    """A web with work in each class: what has happened depends on the requests, not on the time.

    Sites have more unknown pages than a crawl can fetch. Hubs name more new stories at each visit than it can fetch.
    The items of shops change at every second visit. Of the old pages, the first half is gone, and the other half goes
    after the first visit.
    """

    def __init__(self, local_web: Callable[..., LocalWeb], hosts: int) -> None:
        kinds = {"sites": self._site, "news": self._news, "shops": self._shop, "archives": self._archive}
        labels = {
            f"127.4.{n}.{m}": kind for n, kind in enumerate(kinds.values()) for m in range(1, hosts + 1)
        }
        self._visits = Counter[tuple[str, str]]()
        self._web = local_web(*labels)
        for label, kind in labels.items():
            self._web.put(label, "*", kind)
            self._web.put(label, "/robots.txt", Reply("", 404))
        self.seeds = [self._web.url(label) for label in labels]

    def _visit(self, hit: Hit) -> int:
        """Counts a request, returns how many there were before."""
        self._visits[hit.host, hit.path] += 1
        return self._visits[hit.host, hit.path] - 1

    def _site(self, hit: Hit) -> Reply:
        number = int(hit.path[1:] or 0)
        return page(f"{hit.host}{hit.path}", *(f"/{10 * number + more}" for more in range(1, 11)))

    def _news(self, hit: Hit) -> Reply:
        if hit.path not in HUBS:
            return page(f"{hit.host}{hit.path}")
        latest = NEW * (1 + self._visit(hit))
        stories = (f"{hit.path}story{n}" for n in range(max(0, latest - LISTED), latest))
        return page(f"{hit.host}{hit.path}{latest}", *HUBS, *stories)

    def _shop(self, hit: Hit) -> Reply:
        items = [f"/item{n}" for n in range(ITEMS)] if hit.path == "/" else []
        return page(f"{hit.host}{hit.path}{self._visit(hit) // 2}", *items)

    def _archive(self, hit: Hit) -> Reply:
        if hit.path == "/":
            return page(hit.host, *(f"/old{n}" for n in range(LOST)))
        is_gone = self._visit(hit) or int(hit.path.removeprefix("/old")) % 2
        return Reply("gone", 404) if is_gone else page(f"{hit.host}{hit.path}")


def fetches_of(client: redis.Redis) -> Counter[str]:
    """The fetches of a crawl by class so far."""
    totals = client.hgetall("wc:{c:broad}:totals")
    return Counter({name: int(totals.get(f"fetches.{name}".encode(), 0)) for name in CLASSES})


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "hosts", "fetches"), [(1, 4, 4_000), (3, 12, 10_000)])
def test_each_class_has_its_share_of_a_crawl_with_work_in_all(
    local_web: Callable[..., LocalWeb],
    start_crawl: Callable[..., Crawl],
    redis_url: str,
    workers: int,
    hosts: int,
    fetches: int,
) -> None:
    """At the start there are only new pages; hubs have to be recognised, and pages to be lost.

    Of several workers, one is killed in the middle, and another starts.
    """
    web = AllClasses(local_web, hosts)

    def start() -> Crawl:
        return start_crawl(
            *("broad", web.seeds),
            RECRAWL=True,
            RECRAWL_MIN_INTERVAL=1,
            CONCURRENT_REQUESTS=3,
            DOWNLOAD_DELAY=0.02,
            TRAFFIC=json.dumps(SHARES),
            REDIS_URL=redis_url,
        )

    crawls = [start() for _ in range(workers)]
    with redis.Redis.from_url(redis_url) as client:
        until(lambda: fetches_of(client).total() >= 1_000 * workers, crawls[0], 200)
        before = fetches_of(client)
        if workers > 1:
            until(lambda: (fetches_of(client) - before).total() >= fetches // 2, crawls[0], 400)
            crawls.pop(0).kill()
            crawls.append(start())
        until(lambda: (fetches_of(client) - before).total() >= fetches, crawls[0], 600)
        counted = fetches_of(client) - before
    for crawl in crawls:
        crawl.interrupt()
    for crawl in crawls:
        crawl.wait(60, status=None)
    shares = {name: 100 * counted[name] / counted.total() for name in CLASSES}
    print(shares)
    assert shares == pytest.approx(SHARES, abs=2.0)
