"""A crawl that fetches no page says why for each start URL and exits with 1; a run with nothing to do exits with 0."""

from __future__ import annotations

from collections.abc import Callable

from tests.crawl.conftest import Project
from tests.crawls import CrawlResult
from tests.nameserver import Nameserver, Trouble, Zone
from tests.ports import free_ports
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

FORBIDDEN, BARRED, INNER, LEADING, GOOD = (f"127.0.1.{n}" for n in range(1, 6))

OFFSITE = """
import scrapy

class Offsite(scrapy.Spider):
    name = "offsite"
    allowed_domains = ["127.0.0.9"]

    def __init__(self, filtered="no", **kwargs):
        super().__init__(**kwargs)
        self.filtered = filtered == "yes"

    async def start(self):
        yield scrapy.Request(self.url, dont_filter=not self.filtered)

    def parse(self, response):
        yield {"robots": response.url}
"""

RAISING = """
import scrapy

class Raising(scrapy.Spider):
    name = "raising"
    start_urls = ["no-scheme"]
"""


def outcomes(stderr: str) -> dict[str, str]:
    """The start URLs and reasons at the end of the summary."""
    _, _, told = stderr.replace("This run fetched no page:", "No page was fetched:").partition(
        "No page was fetched:"
    )
    return {
        url: why
        for url, _, why in (line.strip().partition(": ") for line in told.strip().splitlines())
        if why
    }


def test_each_start_url_without_a_page_has_a_reason(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(FORBIDDEN, BARRED, INNER, LEADING, GOOD)
    web.put(FORBIDDEN, "/", Reply("no", status=403))
    web.put(BARRED, "/robots.txt", "User-agent: *\nDisallow: /")
    web.put(LEADING, "/", Reply(status=302, headers={"Location": web.url(INNER)}))
    web.put(GOOD, "/", "a page")
    dead, refused = "http://missing.example/", f"http://127.0.1.6:{free_ports(1)[0]}/"
    seeds = [web.url(FORBIDDEN), web.url(BARRED), web.url(LEADING), dead, refused, "http://[::1/"]
    zone: Zone = {"missing.example": Trouble.NXDOMAIN}
    with Nameserver(zone) as nameserver:
        options = {"DNS_SERVERS": nameserver.address, "FRONTIER_MAX_ATTEMPTS": 1}
        first = crawl(seeds, **options, status=1)
        again = crawl(seeds, PROGRESS="off", **options, status=1)
        web.put(FORBIDDEN, "/", "not asked again")
        more = crawl([*seeds, web.url(GOOD)], **options)
        idle = crawl([*seeds, web.url(GOOD)], **options)
        empty = crawl([web.url(GOOD), web.url(GOOD, "/gone")], **options, status=1)

    told = outcomes(first.stderr)
    assert told[web.url(FORBIDDEN)] == "status 403"
    assert told[web.url(BARRED)] == "robots.txt disallows it"
    assert "missing.example" in told[dead] and "resolve" in told[dead]
    assert "refused" in told[refused] or "Connect call failed" in told[refused]
    assert "not a URL" in told["http://[::1/"]
    assert told[web.url(LEADING)] == "redirected: see its target"
    assert told[web.url(INNER)].startswith("refused by the address guard: 127.0.1.3 is loopback")
    assert first.summary["failed_start_urls"].keys() >= {dead, refused, web.url(BARRED)}

    assert "status 403" in again.stderr and "robots.txt disallows it" in again.stderr

    assert "fetched no page" not in more.stderr + idle.stderr

    assert "This run fetched no page" in empty.stderr
    assert outcomes(empty.stderr)[web.url(GOOD, "/gone")].startswith("status 404")


def test_workers_without_pages_report_what_any_of_them_saw(local_web: StartWeb, run_crawl: RunCrawl) -> None:
    web = local_web(FORBIDDEN)
    seeds = [web.url(FORBIDDEN, f"/{number}") for number in range(150)]
    result = run_crawl("broad", seeds, command=("workers", "2"), timeout=60, status=1)
    told = outcomes(result.stderr)
    assert list(told.values()) == ["status 404: not found"] * 10
    assert result.stderr.rstrip().endswith("and 140 more")
    assert 20 <= len(result.summary["failed_start_urls"]) <= 40


def test_start_requests_outside_the_allowed_domains_behave_as_in_scrapy(
    local_web: StartWeb, run_crawl: RunCrawl, project: Project
) -> None:
    project.add_spider("offsite", OFFSITE)
    project.add_spider("raising", RAISING)
    web = local_web(GOOD)
    web.put(GOOD, "/", "a page")
    options = {"project": project.folder, "timeout": 60.0}
    run_crawl("offsite", arguments={"url": web.url(GOOD)}, **options)
    assert web.paths(GOOD) == ["/robots.txt", "/"]

    filtered = run_crawl(
        "offsite", arguments={"url": web.url(GOOD), "filtered": "yes"}, CRAWL_ID="f", **options, status=1
    )
    assert outcomes(filtered.stderr)[web.url(GOOD)].startswith("offsite: ")

    raising = run_crawl("raising", CRAWL_ID="r", **options, status=1)
    assert "Missing scheme" in outcomes(raising.stderr)["start()"]
