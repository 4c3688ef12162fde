"""Crawls with REVISIT and a limit: what was never visited, or longest ago, comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tests.crawls import CrawlResult
from tests.web import LocalWeb

SITE = "127.0.1.1"
PAGES = 24
LIMIT = 8

RunCrawl = Callable[..., CrawlResult]


def site(local_web: Callable[..., LocalWeb], depth: int) -> tuple[LocalWeb, list[str]]:
    """Serves PAGES pages that the home page links to, or to which two lists lead (depth 2)."""
    web = local_web(SITE)
    names = [f"/page{number}" for number in range(PAGES)]
    lists = {f"/list{start}": names[start : start + 12] for start in range(0, PAGES, 12)}
    links = {"/": names} if depth == 1 else {"/": list(lists), **lists}
    for path, targets in links.items():
        web.put(SITE, path, "".join(f"<a href={target}>{target}</a>" for target in targets))
    for name in names:
        web.put(SITE, name, f"<h1>{name}</h1><p>The text of {name}.</p>")
    return web, names


def visited(web: LocalWeb) -> list[str]:
    paths = [hit.path for hit in web.log(SITE) if hit.path.startswith("/page")]
    web.hits.clear()
    return paths


@pytest.mark.parametrize(
    ("depth", "how"),
    [
        (1, "the same crawl anew"),
        (2, "another crawl"),
        pytest.param(1, "another crawl", marks=pytest.mark.slow),
        pytest.param(2, "the same crawl anew", marks=pytest.mark.slow),
    ],
)
def test_a_limit_starves_no_page(
    local_web: Callable[..., LocalWeb], crawl: RunCrawl, how: str, depth: int
) -> None:
    web, names = site(local_web, depth)
    runs: list[list[str]] = []
    # a list leads to its pages only when its own turn comes
    for run in range(20 if depth == 2 else 4):
        if depth == 2 and {path for run in runs for path in run} >= set(names):
            break
        options = {"CRAWL_ID": f"run{run}"} if how == "another crawl" else {"SCHEDULER_FLUSH_ON_START": True}
        crawl([web.url(SITE)], REVISIT=True, CRAWL_MAX_PAGES=LIMIT, **options)
        runs.append(visited(web))
    counts = Counter(path for run in runs for path in run)
    assert set(counts) == set(names)
    if depth == 1:
        # the pages of a run are those that waited longest
        assert max(counts.values()) - min(counts.values()) <= 1


def test_seeds_take_turns(local_web: Callable[..., LocalWeb], crawl: RunCrawl) -> None:
    web, names = site(local_web, 1)
    runs = []
    for run in range(4):
        seeds = [web.url(SITE, name) for name in names]
        crawl(seeds, REVISIT=True, CRAWL_MAX_PAGES=LIMIT, CRAWL_ID=f"run{run}")
        runs.append(visited(web))
    assert sorted(path for run in runs[:3] for path in run) == sorted(names)
    assert set(runs[3]) == set(runs[0])


def test_what_is_never_visited_keeps_the_order_of_its_weight(
    local_web: Callable[..., LocalWeb], crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<a href=/seen>s</a>")
    for path in ("/seen", "/a/b/c/d/e/f/g/deep", "/near"):
        web.put(SITE, path, path)
    crawl([web.url(SITE)], REVISIT=True, CRAWL_ID="first")
    web.hits.clear()
    web.put(SITE, "/", "<a href=/seen>s</a><a href=/a/b/c/d/e/f/g/deep>d</a><a href=/near>n</a>")
    crawl([web.url(SITE)], REVISIT=True, CRAWL_ID="second")
    paths = [hit.path for hit in web.log(SITE) if hit.path != "/robots.txt"]
    assert paths == ["/", "/near", "/a/b/c/d/e/f/g/deep", "/seen"]
