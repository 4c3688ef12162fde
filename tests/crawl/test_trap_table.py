"""The sites of the benchmark of traps on a small scale, by the server's log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.servers import free_dns_port, free_port, requests, serving
from benchmarks.trap_sites import TRAPS, html, prose, serve_prose
from benchmarks.trap_web import TrapWeb
from benchmarks.traps import counted, missed_beside_forum
from tests.crawls import CrawlResult, crawl_hosts, scrapy
from tests.web import LocalWeb
from webcrawl.policies.budgets import FIRST, PER_CUBE

RunCrawl = Callable[..., CrawlResult]
HONEST = 6
DOMAINS = [trap for trap in TRAPS if trap != "farm"]
"""The traps whose hosts are of a registered domain each."""


@dataclass(frozen=True)
class Beside:
    """A crawl of all traps beside honest hosts: the pages asked for at each trap, and at a mean honest host."""

    web: TrapWeb
    pages: Counter[str]
    an_honest_host: float
    data_dir: Path

    def told(self, command: str, *words: str) -> dict[str, Any]:
        """What `scrapy COMMAND --json` tells of the crawl."""
        done = scrapy(command, "--json", *words, "-s", f"DATA_DIR={self.data_dir}")
        return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Beside:
    """Crawls the traps beside honest hosts, to which other domains link. No other domain links to the traps.

    The honest hosts have more pages than are fetched.
    """
    folder = tmp_path_factory.mktemp("beside")
    web = TrapWeb(free_port("0.0.0.0"), pages=4_000, hosts=HONEST, traps=(), outward=0.3)
    names, log = free_dns_port(), folder / "requests"
    with serving(serve_prose, web, names, log):
        result = crawl_hosts(
            [web.start(site) for site in (*DOMAINS, *range(HONEST))],
            folder,
            scope="web",
            timeout=60.0,
            DNS_SERVERS=f"127.0.0.1:{names}",
            ALLOWED_NETWORKS="127.0.0.0/8",
            DOWNLOAD_DELAY=0.05,
            CRAWL_MAX_PAGES=1_000,
        )
    assert result.returncode == 0, result.stderr
    pages = Counter({site.name: site.pages for site in counted([asked for _, asked in requests(log)])})
    return Beside(web, pages, pages["honest hosts"] / HONEST, result.data_dir)


def test_a_forum_of_one_pattern_and_a_deep_site_are_fetched_whole(
    crawl: RunCrawl, local_web: Callable[..., LocalWeb]
) -> None:
    forum, chain = "127.0.1.1", "127.0.1.2"
    web, words = local_web(forum, chain), prose()
    threads = [f"/thread/{number}" for number in range(200)]
    lists = {f"/list/{first}": threads[first : first + 50] for first in range(0, len(threads), 50)}
    web.put(forum, "/", html("A forum", words.phrases(20, 1), lists))
    for path, listed in lists.items():
        web.put(forum, path, html(path, words.phrases(20, 2, len(path)), [*listed, "/"]))
    for number, path in enumerate(threads):
        web.put(forum, path, html(path, words.phrases(20, 3, number), ["/"]))
    levels = ["/", *(f"/part/{level}" for level in range(1, 61))]
    for level, path in enumerate(levels):
        web.put(chain, path, html(path, words.phrases(20, 4, level), levels[level + 1 : level + 2]))
    crawl([web.url(forum), web.url(chain)])
    for site, pages in ((forum, 1 + len(lists) + len(threads)), (chain, len(levels))):
        asked = [path for path in web.paths(site) if path != "/robots.txt"]
        assert len(asked) == len(set(asked)) == pages


def test_the_frontier_tells_which_sites_repeat_themselves(crawl: RunCrawl, tmp_path: Path) -> None:
    traps = ("session", "repeat")  # about a third of a calendar's pages are new, so it sinks and rises again
    web = TrapWeb(free_port("0.0.0.0"), pages=400, hosts=1, traps=traps)
    seeds = [web.start(site) for site in (*traps, *range(web.hosts))]
    names, log = free_dns_port(), tmp_path / "requests"
    with serving(serve_prose, web, names, log):
        crawl(
            seeds,
            scope="web",
            DNS_SERVERS=f"127.0.0.1:{names}",
            ALLOWED_NETWORKS="127.0.0.0/8",
            CRAWL_MAX_PAGES=600,
            DOWNLOAD_DELAY=0.01,
        )
    sites = counted([asked for _, asked in requests(log)])
    assert not any(site.again for site in sites), "a page was fetched twice"
    told = scrapy("status", "--json", "-s", f"DATA_DIR={tmp_path / 'data'}")
    sunk = json.loads(told.stdout)["sunk_patterns"]
    assert {one["host"] + "/" for one in sunk["worst"]} == {web.start(trap) for trap in traps}
    assert sunk["hosts"] == len(traps), "an honest site has sunk"
    assert all(one["why"].endswith("pages were copies") for one in sunk["worst"])


@pytest.mark.parametrize("trap", [trap for trap in DOMAINS if trap != "subdomains"])
def test_a_trap_takes_much_less_of_a_crawl_than_an_honest_host(beside: Beside, trap: str) -> None:
    assert 0 < beside.pages[trap] < beside.an_honest_host * 2 / 3


def test_all_names_of_a_domain_take_about_as_little_as_one_host(beside: Beside) -> None:
    assert 0 < beside.pages["subdomains"] < beside.an_honest_host * 3 / 2


def test_the_frontier_tells_which_domains_are_over_their_budgets(beside: Beside) -> None:
    told = beside.told("status")["over_budget"]
    names = {"subdomains.test" if trap == "subdomains" else f"www.{trap}.test" for trap in DOMAINS}
    assert {owner for owner, _, _ in told["worst"]} == names
    assert told["owners"] == len(names), "an honest host is over its budget"
    hosts = {owner: hosts for owner, hosts, _ in told["worst"]}
    assert hosts.pop("subdomains.test") > len(names)
    assert set(hosts.values()) == {1}


def test_a_host_tells_of_its_budget_and_of_that_of_its_domain(beside: Beside) -> None:
    subdomains = beside.web.start("subdomains").rstrip("/")
    budgets = beside.told("host", subdomains)["budgets"]
    assert list(budgets) == ["www.subdomains.test", "subdomains.test"]
    name, domain = budgets.values()
    assert not name["is_over"]
    assert (domain["pages"], domain["linking_domains"], domain["is_over"]) == (FIRST, 0, True)
    assert domain["spent"] >= domain["pages"]
    honest = beside.told("host", beside.web.start(0).rstrip("/"))["budgets"]["host0.example0.test"]
    assert honest["pages"] == FIRST + PER_CUBE * honest["linking_domains"] ** 3 > honest["spent"]
    assert not honest["is_over"]
    table = scrapy("host", subdomains, "-s", f"DATA_DIR={beside.data_dir}").stdout
    spent = f"{FIRST} pages; it cost as much as {domain['spent']:,.0f} (copies and errors cost more)"
    assert (
        f"budget of subdomains.test: {spent}; other domains that link to it: 0; over it, so others come first\n"
        in table
    )


@pytest.mark.slow
def test_a_farm_of_addresses_takes_no_forum_or_deep_site_its_turns(crawl: RunCrawl, tmp_path: Path) -> None:
    web = TrapWeb(
        free_port("0.0.0.0"), pages=300, hosts=HONEST, traps=("farm",), outward=0.3, threads=150, wide=1
    )
    names, log, most = free_dns_port(), tmp_path / "requests", sum(web.whole.values()) * 5 // 4
    with serving(serve_prose, web, names, log):
        crawl(
            [web.start(site) for site in range(HONEST)],
            scope="web",
            DNS_SERVERS=f"127.0.0.1:{names}",
            ALLOWED_NETWORKS="127.0.0.0/8",
            CRAWL_MAX_PAGES=most,
            DOWNLOAD_DELAY=0.02,
        )
    assert missed_beside_forum([asked for _, asked in requests(log)], web, most) == []
