"""Which links a crawl follows, and in which order: rules, domains, folders, hops, levels."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply
from webcrawl.frontier.ledger import owners

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE, OTHER, THIRD = "127.0.1.1", "127.0.1.2", "127.0.1.3"
LOOPBACK = {"ALLOWED_NETWORKS": "127.0.1.0/24"}


def links(*addresses: str) -> str:
    return "".join(f"<a href='{address}'>{address.rpartition('/')[2]}</a>" for address in addresses)


def pages(web: LocalWeb, label: str) -> list[str]:
    return [path for path in web.paths(label) if path != "/robots.txt"]


def test_a_site_of_channels_and_articles_is_crawled_with_three_lines_of_settings(
    local_web: StartWeb, crawl: RunCrawl, redis_url: str, valkey: Redis, tmp_path: Path
) -> None:
    web = local_web(SITE, OTHER)
    channels = ["/world/", "/sport/", "/money/"]
    articles = {
        channel: [f"/26/11{day}/{day}/{channel[1]}{day}.html" for day in (20, 21, 22)] for channel in channels
    }
    web.put(SITE, "/", links("/login", "/26/1101/01/OLD.html", *channels, web.url(OTHER, "/money/")))
    for channel in channels:
        web.put(SITE, channel, links("/", *channels, "/about.html", *articles[channel], "/26/tags/x.html"))
        for article in articles[channel]:
            web.put(
                SITE, article, links("/comments", f"{article}?print=1", "/26/1123/09/RELATED.html", "/world/")
            )
    (tmp_path / "news.py").write_text(
        "from settings.local import *\n"
        'URL_LEVELS = [("/[a-z]+/$", 0)]\n'
        'ARTICLE = "/[0-9]+/[0-9]+/[0-9]+/.*.html$"\n'
        'LINK_RULES = [("^http://[^/]+/$", "/[a-z]+/$"), ("/[a-z]+/$", ARTICLE), (ARTICLE, None)]\n'
        f'DENIED_DOMAINS = ["{OTHER}"]\n'
    )
    env = {"SCRAPY_SETTINGS_MODULE": "news", "PYTHONPATH": str(tmp_path)}
    crawl([web.url(SITE)], env=env, scope="web", REDIS_URL=redis_url)
    order = pages(web, SITE)
    assert order[:4] == ["/", *channels], "channels before the articles of the first one"
    assert sorted(order[4:]) == sorted(article for each in articles.values() for article in each)
    assert not pages(web, OTHER)
    budgets = {owner.decode() for key in valkey.scan_iter("*:budgets") for owner in valkey.hkeys(key)}
    assert budgets == {*owners(f"http://{SITE}")}, "hosts that are not crawled need no budget"


def test_short_and_shallow_urls_come_before_deep_and_long_ones(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    worst_first = ["/s/t/u?a=1&b=2&c=3&d=4&e=5&f=6", "/a/b/c/d/e/f/g/h", "/a/b/c", "/x"]
    web.put(SITE, "/start", links(*worst_first, "/"))
    for path in (*worst_first, "/"):
        web.put(SITE, path, "a page")
    assert crawl([web.url(SITE, "/start")]).returncode == 0
    assert pages(web, SITE) == ["/start", "/", "/a/b/c", "/x", *reversed(worst_first[:2])]


def test_what_a_sitemap_says_decides_the_order(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(SITE)
    entries = {
        "/rare": "<changefreq>yearly</changefreq><priority>0.0</priority>",
        "/usual": "",
        "/front": "<changefreq>daily</changefreq><priority>1.0</priority>",
    }
    body = "".join(f"<url><loc>{web.url(SITE, path)}</loc>{more}</url>" for path, more in entries.items())
    web.put(SITE, "/sitemap.xml", Reply(f"<urlset>{body}</urlset>", headers={"Content-Type": "text/xml"}))
    for path in entries:
        web.put(SITE, path, "a page")
    run_crawl("sitemap", [web.url(SITE)], timeout=60)
    assert pages(web, SITE) == ["/sitemap.xml", "/front", "/usual", "/rare"]


@pytest.mark.parametrize("padding", [0, 8_000], ids=["parsed in the worker", "parsed in the HTML process"])
def test_words_in_links_decide_the_order(local_web: StartWeb, crawl: RunCrawl, padding: int) -> None:
    web = local_web(SITE)
    texts = {"/1": "Log in", "/2": "other", "/3": "The <b>next</b> page", "/4": "<img alt='Next' src=n.png>"}
    body = "".join(f"<p><a href={path}>{text}</a>" for path, text in texts.items())
    web.put(SITE, "/", body + "<p>" + "some text " * (padding // 10))
    for path in texts:
        web.put(SITE, path, "a page")
    words = json.dumps({r"\bnext\b": 2, "log ?in": -2})
    assert crawl([web.url(SITE)], ANCHOR_WORDS=words).returncode == 0
    assert pages(web, SITE) == ["/", "/3", "/4", "/2", "/1"]


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_links_off_the_site_are_followed_for_so_many_hops(
    local_web: StartWeb, crawl: RunCrawl, hops: int
) -> None:
    web = local_web(SITE, OTHER, THIRD)
    web.put(SITE, "/", links(web.url(OTHER, "/1"), "/moved"))
    web.put(SITE, "/moved", Reply(status=302, headers={"Location": web.url(THIRD, "/1")}))
    web.put(OTHER, "/1", links("/2", web.url(SITE, "/back")))
    web.put(OTHER, "/2", links("/3"))
    web.put(OTHER, "/3", "too far")
    web.put(SITE, "/back", links("/inside"))
    web.put(SITE, "/inside", "inside")
    web.put(THIRD, "/1", Reply(status=302, headers={"Location": "/same"}))
    web.put(THIRD, "/same", links("/2"))
    web.put(THIRD, "/2", links("/3"))
    web.put(THIRD, "/3", "too far")
    crawl([web.url(SITE)], OFFSITE_HOPS=hops, **LOOPBACK)
    found = {
        0: ([], [], []),
        1: (["/1"], ["/1", "/same"], ["/back", "/inside"]),
        2: (["/1", "/2"], ["/1", "/2", "/same"], ["/back", "/inside"]),
    }[hops]
    assert sorted(pages(web, OTHER)) == found[0]
    assert sorted(pages(web, THIRD)) == found[1]
    assert sorted(pages(web, SITE)) == sorted(["/", "/moved", *found[2]])


def test_each_seed_may_have_its_own_folder(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER)
    web.put(
        SITE, "/docs/start?x=/y/", links("/docs/a", "/docs/b/c", "/blog/", "/", web.url(OTHER, "/news/1"))
    )
    for path in ("/docs/a", "/docs/b/c", "/blog/", "/"):
        web.put(SITE, path, "a page")
    web.put(OTHER, "/news/", links("/news/1", "/docs/a", "/news"))
    for path in ("/news/1", "/docs/a", "/news"):
        web.put(OTHER, path, "a page")
    crawl([web.url(SITE, "/docs/start?x=/y/"), web.url(OTHER, "/news/")], scope="path")
    assert sorted(pages(web, SITE)) == ["/docs/a", "/docs/b/c", "/docs/start?x=/y/"]
    assert sorted(pages(web, OTHER)) == ["/news/", "/news/1"]


def test_lists_of_domains_decide_what_is_followed(
    local_web: StartWeb, crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE, OTHER, THIRD)
    web.put(SITE, "/", links(*(web.url(label, "/x") for label in (SITE, OTHER, THIRD))))
    for label in (SITE, OTHER, THIRD):
        web.put(label, "/x", "a page")
    domains = tmp_path / "domains.txt"
    domains.write_text(f"# all of them\n{SITE}\n{OTHER}\n{THIRD}\n")
    options: dict[str, Any] = {"ALLOWED_DOMAINS": f"@{domains}", "DENIED_DOMAINS": THIRD, **LOOPBACK}
    crawl([web.url(SITE)], scope="web", **options)
    assert [len(pages(web, label)) for label in (SITE, OTHER, THIRD)] == [2, 1, 0]


REQUESTS = """
from scrapy import Request, Spider


class Requests(Spider):
    name = "requests"

    async def start(self):
        yield Request(self.home + "/")

    def parse(self, response):
        if response.url == self.home + "/":
            for path, priority in (("/tag/0", 0), ("/plain", 0), ("/tag/1", 1), ("/low", -1), ("/best", 0)):
                yield Request(self.home + path, priority=priority)
"""


def test_levels_by_expression_hold_for_requests_without_a_priority(
    local_web: StartWeb, run_spider: RunCrawl
) -> None:
    web = local_web(SITE)
    for path in ("/", "/tag/0", "/tag/1", "/plain", "/low", "/best"):
        web.put(SITE, path, "a page")
    levels = json.dumps([["/tag/", "+3"], ["best$", 0]])
    run_spider(REQUESTS, web.host(SITE), URL_LEVELS=levels)
    assert pages(web, SITE) == ["/", "/best", "/tag/1", "/plain", "/low", "/tag/0"]


@pytest.mark.parametrize("html_process", [True, False])
def test_refresh_headers_and_scripts_that_go_elsewhere_are_followed(
    html_process: bool, local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", Reply("soon", headers={"Refresh": "0; URL='/refreshed?a=1#b'"}))
    web.put(
        SITE,
        "/refreshed?a=1",
        Reply("{}", headers={"Content-Type": "application/json", "Refresh": "5;/script"}),
    )
    padding = "<!--" + 8_000 * "x" + "-->"  # the process for HTML reads large pages only
    web.put(SITE, "/script", f"{padding}<script>window.location.replace('/end')</script>Moved")
    web.put(SITE, "/end", Reply("end", headers={"Refresh": "60"}))
    crawl([web.url(SITE)], HTML_PROCESS=html_process)
    assert pages(web, SITE) == ["/", "/refreshed?a=1", "/script", "/end"]
