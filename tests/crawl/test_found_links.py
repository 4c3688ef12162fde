"""Ways to find more URLs: folders above pages, and addresses written in texts; and how often a found URL is known."""

from __future__ import annotations

from collections.abc import Callable

from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]
SITE, OTHER = "127.0.1.1", "127.0.1.2"
LONG = "<p>" + "word " * 1_000


def test_folders_above_found_pages_are_asked(run_crawl: RunCrawl, local_web: StartWeb) -> None:
    """Of links, of the seed and of the target of a redirect, within scope, filters, robots.txt and depth."""
    web = local_web(SITE, OTHER)
    rules = Reply("User-agent: *\nDisallow: /private/", headers={"Content-Type": "text/plain"})
    web.put(SITE, "/robots.txt", rules)
    links = "/a/b/page?x=/y/z", "/a/b/other", "/private/deep/page", "/moved", "/denied/deep/page", "/a/b/page"
    seed = "".join(f"<a href='{path}'>x</a>" for path in (*links, f"{web.host(OTHER)}/outside/page"))
    web.put(SITE, "/seeds/list/", f"<title>seed</title>{seed}")
    web.put(SITE, "/moved", Reply(status=302, headers={"Location": "/target/of/redirect"}))
    web.put(SITE, "/target/of/redirect", "target")
    web.put(SITE, "/a/", "<title>index</title><a href=/only/here>x</a>")
    options = {"PATH_ASCENDING": True, "URL_DENY": "/denied/deep/$", "DEPTH_LIMIT": 1}
    result = run_crawl("broad", [web.url(SITE, "/seeds/list/")], scope="host", **options)
    asked = web.paths(SITE)
    folders = {"/seeds/", "/", "/a/b/", "/a/", "/denied/"}
    assert folders <= {*asked}, result.stderr
    assert len(asked) == len({*asked}), "each folder is asked once"
    assert not {path for path in asked if path.startswith(("/private", "/denied/deep/"))} - {
        "/denied/deep/page"
    }
    assert web.log(OTHER) == []
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    assert (rows["/a/"]["title"], rows["/a/"]["depth"]) == ("index", 1)
    assert rows["/a/b/"]["referrer"] == web.url(SITE, "/seeds/list/")
    # deeper than DEPTH_LIMIT: what pages of depth 1 lead to, their own folders too
    assert not {"/only/", "/only/here", "/target/of/"} & {*asked}


def test_folders_of_a_redirected_seed_are_asked(run_crawl: RunCrawl, local_web: StartWeb) -> None:
    web = local_web(SITE)
    web.put(SITE, "/start", Reply(status=302, headers={"Location": "/deep/down/page"}))
    web.put(SITE, "/deep/down/page", "target")
    run_crawl("broad", [web.url(SITE, "/start")], PATH_ASCENDING=True)
    assert {"/deep/down/", "/deep/", "/"} <= {*web.paths(SITE)}


def test_addresses_written_in_html_are_followed(run_crawl: RunCrawl, local_web: StartWeb) -> None:
    """In a page that this process parses, in one that another parses, and not in one that says nofollow."""
    web = local_web(SITE)
    host = web.host(SITE)
    web.put(SITE, "/", f"<p>See {host}/small, and ({host}/long).<a href=/nofollow>{host}/shorten...</a>")
    web.put(SITE, "/small", f"<script>'{host}/script'</script>small")
    web.put(SITE, "/long", f"{LONG}<p>{host}/from_long_page_")
    web.put(SITE, "/nofollow", f"<meta name=robots content=nofollow>{host}/forbidden")
    for path in ("/from_long_page", "/shorten", "/script", "/forbidden"):
        web.put(SITE, path, "x")
    result = run_crawl("broad", [web.url(SITE)], TEXT_LINKS=True)
    found = {"/", "/small", "/long", "/nofollow", "/from_long_page"}
    assert {*web.paths(SITE)} - {"/robots.txt"} == found, result.stderr
    run_crawl("broad", [web.url(SITE)], CRAWL_ID="without")
    assert {path: web.paths(SITE).count(path) for path in ("/", "/small", "/nofollow")} == {
        "/": 2,
        "/small": 1,
        "/nofollow": 2,
    }


def test_the_summary_tells_how_many_found_urls_were_in_the_cache(
    run_crawl: RunCrawl, local_web: StartWeb
) -> None:
    web = local_web(SITE)
    paths = [f"/{number}" for number in range(10)]
    menu = "".join(f"<a href={path}>{path}</a>" for path in ["/", *paths, "/0?utm_source=menu"])
    for path in ["/", *paths]:
        web.put(SITE, path, menu)
    for seen_set in ("exact", "bloom"):
        result = run_crawl("broad", [web.url(SITE)], CRAWL_ID=seen_set, SEEN_SET=seen_set, URL_DENY="/9$")
        # 12 links on each of 10 pages and the seed, without those to /9, which is denied each time
        assert result.summary["pages"] == 10, result.stderr
        assert result.summary["looked_up"] == 10 * 11 + 1
        # the seed and 9 pages were new; the first link with a campaign parameter has the fingerprint of another
        assert result.summary["cache_hit_ratio"] == round((10 * 11 + 1 - 10) / (10 * 11 + 1), 4)
        assert "lookups     111 links, 91.0% known to a worker" in result.stderr
