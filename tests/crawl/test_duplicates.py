"""Exact and near duplicates in a crawl: which are fetched, processed, archived and followed."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from redis import Redis
from scrapy.settings import Settings

from tests.crawl.archive import check, record_at, records
from tests.crawls import Crawl, CrawlResult, scrapy
from tests.documents import rss
from tests.web import LocalWeb, Reply
from webcrawl.config import DEFAULTS, FetchConfig, StoreConfig
from webcrawl.engine.client import Engine
from webcrawl.engine.keys import Keys
from webcrawl.stores.duplicate_index import DuplicateIndex
from webcrawl.stores.stored_pages import StoredPages

StartWeb = Callable[..., LocalWeb]
RunCrawl = Callable[..., CrawlResult]
SITE = "127.0.1.1"


def words(seed: int, count: int = 600) -> str:
    return " ".join(f"w{random.Random(seed * 1000 + number).getrandbits(16)}" for number in range(count))


def by_path(web: LocalWeb, result: CrawlResult, site: str = SITE) -> dict[str, dict[str, Any]]:
    root = web.url(site, "")
    return {row["url"].removeprefix(root): row for row in result.rows() if row["url"].startswith(root)}


def home_of(*paths: str) -> str:
    return f"<title>home</title><p>{words(99)}</p>" + "".join(
        f'<a href="{path}">{path}</a>' for path in paths
    )


def test_a_copy_is_not_processed_and_its_links_are_followed(local_web: StartWeb, crawl: RunCrawl) -> None:
    """Relative links resolve against each copy's URL. Empty, error and truncated responses are not duplicates."""
    web = local_web(SITE)
    text = f"<title>One</title><p>{words(1)}</p><a href=next>relative</a>"
    half = Reply(
        raw=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9999\r\n\r\n<p>half a page"
    )
    no_copies = {
        **{f"/empty{number}": "" for number in (1, 2)},
        **{f"/gone{number}": Reply("gone", status=404) for number in (1, 2)},
        **{f"/half{number}": half for number in (1, 2)},
    }
    copies = {"/a/page": text, "/b/page": Reply(text, delay=0.5)}  # arrives after the first is stored
    kept_out = f"<p>{words(2)}</p>"
    no_copies["/secret"] = Reply(kept_out, headers={"X-Robots-Tag": "noarchive"})
    no_copies["/public"] = kept_out
    web.sites[SITE].update({**no_copies, **copies, "/": home_of(*no_copies, "/a/page")})
    for path, link in (("/a/next", "/b/page"), ("/b/next", "/")):
        web.put(SITE, path, f"<p>{path}<a href={link}>")
    once = {"FRONTIER_MAX_ATTEMPTS": 1, "POLITENESS_BACKOFF": 0, "POLITENESS_MAX_FAILURES": 100}
    result = crawl([web.url(SITE)], **once)
    rows = by_path(web, result)
    assert rows.keys() == {"/", "/a/next", "/b/next", *no_copies, *copies}
    [copy] = [rows[path] for path in rows if rows[path]["duplicate_kind"] == "exact"]
    first = rows["/a/page"]
    assert (copy["duplicate_kind"], copy["duplicate_of"]) == ("exact", first["url"])
    assert (copy["title"], copy["simhash"]) == (None, None)
    assert (first["title"], first["duplicate_of"]) == ("One", None)
    assert record_at(result.data_dir, copy).kind == "revisit"
    assert records(result.data_dir, "revisit") == [copy["url"]]
    assert record_at(result.data_dir, rows["/public"]).kind == "response", (
        "the first response was not archived"
    )
    assert rows["/half1"]["error"] and rows["/half1"]["digest"] == rows["/half2"]["digest"]
    assert result.summary["exact_duplicates"] == 1
    check(result.data_dir)


def test_a_copy_that_was_read_otherwise_or_not_at_all_is_read(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    lines = {"/list.txt": "text/plain", "/sitemap.txt": "text/plain"}
    data = {"/data.txt": "text/plain", "/data.json": "application/json", "/again.txt": "text/plain"}
    feeds = ["/nofollow.rss", "/follow.rss", "/again.rss"]
    broken = ["/broken.pdf", "/again.pdf"]
    bodies = {path: web.url(SITE, "/listed") for path in lines}
    bodies |= dict.fromkeys(data, '{"title": "A name"}')
    bodies |= dict.fromkeys(feeds, rss("<title>e</title><link>/fed</link>").decode())
    bodies |= dict.fromkeys(broken, "%PDF-1.4 and no more")
    types = {**lines, **data, **dict.fromkeys(feeds, "application/rss+xml")}
    types |= dict.fromkeys(broken, "application/pdf")
    paths = list(bodies)
    for path, following in zip(paths, [*paths[1:], ""], strict=True):
        # a chain of pages, one for each file, so that the files are fetched in order
        headers = {"Content-Type": types[path]} | ({"X-Robots-Tag": "nofollow"} if "nofollow" in path else {})
        web.put(SITE, path, Reply(bodies[path], headers={**headers}))
        web.put(
            SITE, f"/to{path}", Reply(home_of(path, *([f"/to{following}"] if following else [])), delay=0.3)
        )
    for path in ("/listed", "/fed"):
        web.put(SITE, path, f"<p>{words(len(path))}")
    web.put(SITE, "/", home_of(f"/to{paths[0]}"))
    result = crawl([web.url(SITE)])
    rows = by_path(web, result)
    assert {"/listed", "/fed"} <= rows.keys()
    firsts = ["/list.txt", "/data.txt", "/nofollow.rss", "/broken.pdf"]
    assert {path: rows[path]["duplicate_kind"] for path in paths} == {
        path: None if path in firsts else "exact" for path in paths
    }
    read = {path for path in paths if rows[path]["details"]}
    assert read == {*paths} - {"/again.txt", *broken}
    assert rows["/data.json"]["title"] == "A name"
    stuck = scrapy("stuck", "--json", "-s", f"DATA_DIR={result.data_dir}").stdout
    assert [rows[path]["processing_error"] is not None for path in broken] == [True, True]
    assert len(stuck.splitlines()) == 2
    scrapy("reparse", "broad", "-s", f"DATA_DIR={result.data_dir}")
    again = by_path(web, result)
    assert {path: row["processing_error"] for path, row in again.items()} == {
        path: row["processing_error"] for path, row in rows.items()
    }


async def remember(url: str, digest: bytes) -> None:
    """Registers a payload like a worker that dies before it stores the page."""
    engine = Engine(url)
    index = DuplicateIndex(engine, Keys("broad", DEFAULTS["FRONTIER_SHARDS"]))
    assert await index.same_payload(digest, "http://lost.test/", datetime.now(UTC)) is None
    await engine.close()


def test_copies_fetched_by_several_workers_at_once_have_one_original(
    local_web: StartWeb, start_crawl: Callable[..., Crawl], valkey: Redis, redis_url: str
) -> None:
    labels = [f"127.0.2.{number}" for number in range(1, 13)]
    web = local_web(*labels)
    copy, near = f"<p>{words(1)}</p>", f"<p>{words(2)}</p>"
    for number, label in enumerate(labels):
        web.put(label, "/", Reply(f"<p>home {number}</p><a href=/copy>c</a><a href=/near>n</a>"))
        web.put(label, "/copy", Reply(copy, delay=0.1))
        web.put(label, "/near", Reply(near + f"<!-- {number} -->", delay=0.1))
    lost = f"<p>{words(3)}</p>"
    asyncio.run(remember(redis_url, hashlib.sha1(lost.encode()).digest()))
    seeds = [web.url(label) for label in labels] + [web.put(labels[0], "/lost", lost)]
    crawls = [
        start_crawl(
            "broad",
            seeds,
            REDIS_URL=redis_url,
            tuned={"lease_hosts": 4, "most_lease_hosts": 0},
        )
        for _ in range(2)
    ]
    results = [one.wait() for one in crawls]
    rows = {row["url"]: row for row in results[0].rows()}
    assert len(rows) == 3 * len(labels) + 1
    again = rows[seeds[-1]]
    assert again["duplicate_of"] == "http://lost.test/"
    assert record_at(results[0].data_dir, again).kind == "response", "the original was never stored"
    options = Settings(DEFAULTS | {"DATA_DIR": str(results[0].data_dir)})
    with StoredPages(StoreConfig.from_settings(options), FetchConfig.from_settings(options)) as stored:
        assert bytes(stored.body(again) or b"") == lost.encode()
    for path, kind in (("/copy", "exact"), ("/near", "near")):
        of_path = [rows[web.url(label, path)] for label in labels]
        firsts = [row["url"] for row in of_path if row["duplicate_of"] is None]
        assert len(firsts) == 1, path
        assert {row["duplicate_of"] for row in of_path} == {None, *firsts}
        assert {row["duplicate_kind"] for row in of_path} == {None, kind}
    [first] = [
        value for key in valkey.keys("*:sum:*") for value in valkey.hgetall(key).values() if b"/copy" in value
    ]
    assert not first.startswith(b"?"), "the original is stored, so its entry must be confirmed"


TEMPLATE = (
    "<title>{title}</title><header><a href=/>Home</a> of everything</header><nav>{menu}</nav>"
    "<main><h1>{title}</h1><p>{text}</p><a href=/from-{title}>on</a></main>"
)
PLAIN = (
    "<title>{title}</title><div class=top>{menu}</div><div><h1>{title}</h1><p>{text}</p></div><p>Imprint</p>"
)


def articles() -> dict[str, str]:
    """Three articles in one template, the first also with one more word and in another template."""
    menu = "".join(f"<li><a href=/>Section {number} of this site</a>" for number in range(60))
    return {
        "/first": TEMPLATE.format(title="first", text=words(1, 2000), menu=menu),
        "/second": TEMPLATE.format(title="second", text=words(2, 60), menu=menu),
        "/third": TEMPLATE.format(title="third", text=words(3, 60), menu=menu),
        "/again": TEMPLATE.format(
            title="first", text=words(1, 2000) + " more", menu="<a href=/of-again>elsewhere</a>"
        ),
        "/plain": PLAIN.format(title="first", text=words(1, 2000), menu=menu.replace("Section", "Other")),
    }


@pytest.mark.parametrize("items", [1, 8])
def test_near_duplicates_can_be_dropped_and_not_followed(
    local_web: StartWeb, crawl: RunCrawl, items: int
) -> None:
    web = local_web(SITE)
    pages = articles()
    # the first article links to the page that links to the others
    for path, body in pages.items():
        web.put(SITE, path, body)
    web.put(SITE, "/", f"<p>{words(99)}</p>" + "<a href=/first>1</a>")
    web.put(SITE, "/from-first", "<p>short</p>" + "".join(f"<a href={path}>{path}</a>" for path in pages))
    web.put(SITE, "/from-second", "<p>second</p>")
    # exact copies of a dropped page, fetched while the first of them is still compared
    copies = {f"/copy{number}": pages["/again"] for number in range(6)}
    web.sites[SITE].update(copies)
    web.put(SITE, "/from-third", "<p>third</p>" + "".join(f"<a href={path}>copy</a>" for path in copies))
    chosen = {"NEAR_DUPLICATES": "drop", "NEAR_DUPLICATES_FOLLOW": False, "CONCURRENT_ITEMS": items}
    result = crawl([web.url(SITE)], **chosen)
    rows = by_path(web, result)
    assert rows.keys() == {"/", *pages, "/from-first", "/from-second", "/from-third", *copies}
    near = {path for path in rows if rows[path]["duplicate_kind"] == "near"}
    assert near == {"/again", "/plain", *copies}
    assert records(result.data_dir, "revisit") == [], (
        "a revisit record refers to a page that is not in the archive"
    )
    assert {rows[path]["duplicate_of"] for path in near} == {web.url(SITE, "/first")}
    archived = {url.removeprefix(web.url(SITE, "")) for url in records(result.data_dir, "response")}
    assert rows.keys() - archived == near
    assert rows["/again"]["title"] == "first"
    assert "/of-again" not in web.paths(SITE)
    counts = ("near_duplicates", "exact_duplicates", "finish_reason")
    assert [result.summary.get(name) for name in counts] == [8, 0, "finished"]
