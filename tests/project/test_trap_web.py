"""The benchmark of traps: its sites are honest or endless as they say, and its figures follow from the requests."""

from __future__ import annotations

import re
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from benchmarks import trap_report, trap_sites
from benchmarks.servers import free_dns_port, free_port, requests
from benchmarks.trap_report import Crawl, Outcome, Site
from benchmarks.trap_sites import TRAPS
from benchmarks.trap_web import LEVELS, TrapWeb
from benchmarks.traps import served

PORT = 80


def links(web: TrapWeb, url: str) -> list[str]:
    parts = urlsplit(url)
    page = web.page(str(parts.hostname), f"{parts.path}?{parts.query}" if parts.query else parts.path)
    assert page is not None, f"{url} does not exist"
    return [urljoin(url, link) for link in re.findall(r'href="([^"]*)"', page)]


def walk(web: TrapWeb, site: str | int, most: int = 1 << 30) -> tuple[dict[str, int], set[str]]:
    """Follows the links of one site; returns the depth of each page that was found, and the links to other sites."""
    start = web.start(site)
    home, depths, others = trap_report.site_of(start[7:]), {start: 0}, set()
    queue = [start]
    for url in queue:
        if most == 0:
            break
        most -= 1
        for link in links(web, url):
            if trap_report.site_of(link[7:]) != home or home == "honest hosts" and link[:13] != start[:13]:
                others.add(link)
            elif link not in depths:
                depths[link] = depths[url] + 1
                queue.append(link)
    return depths, others


@pytest.mark.parametrize("name", TRAPS)
def test_each_trap_has_more_links_than_pages_and_leads_nowhere_else(name: str) -> None:
    found, others = walk(TrapWeb(PORT), name, most=300)
    assert len(found) > 350
    assert not others


def test_all_pages_of_honest_sites_are_linked_and_two_of_them_link_to_each_trap() -> None:
    web, outside = TrapWeb(PORT, 2_000), list[str]()
    for host, size in enumerate(web.sizes):
        found, others = walk(web, host)
        assert len(found) == size
        outside += others
    assert web.honest_pages > 3_000
    fewer = TrapWeb(PORT, 2_000, honest=900)
    assert abs(fewer.honest_pages - 900) < 30
    assert fewer.whole("forum") == web.whole("forum")
    assert [outside.count(web.start(name)) for name in TRAPS] == [2] * 6
    alone, kept = TrapWeb(PORT, 2_000, outward=0.0), set[str]()
    for host in range(alone.hosts):
        kept |= walk(alone, host)[1]
    assert kept == {web.start(name) for name in TRAPS} < set(outside)


def test_the_forum_and_the_chain_can_be_fetched_whole() -> None:
    web = TrapWeb(PORT, 600, hosts=0)
    forum, chain = walk(web, "forum")[0], walk(web, "chain")[0]
    assert (
        (len(forum), len(chain)) == (web.whole("forum"), web.whole("chain")) == (1 + 30 + 1_500, 1 + 5 * 60)
    )
    assert max(chain.values()) == LEVELS
    assert (TrapWeb(PORT).whole("forum"), TrapWeb(PORT).whole("chain")) == (51_001, 9_961)
    assert web.page("www.forum.test", "/thread/x1") is web.page("www.chain.test", "/part/1") is None
    assert web.page("www.forum.test", "/thread/1500") is web.page("www.chain.test", "/part/61/0") is None


def test_names_have_addresses_of_which_some_are_shared() -> None:
    web = TrapWeb(PORT)
    assert len({web.address(f"host{n}.example{n}.test") for n in range(50)}) == 41
    assert len({web.address(f"www.{name}.test") for name in TRAPS}) == 6
    assert web.address("n1.subdomains.test") == web.address("www.subdomains.test") == bytes([127, 31, 0, 4])
    others = ("host1.example2.test", "n1.random.test", "www.else.test", "subdomains.example.org")
    assert {web.address(name) for name in others} == {None}


def outcome(traps: int, workers: int = 1) -> Outcome:
    sites = [
        Site("honest hosts", 1_000 - traps, 990, 50),
        Site("calendar", traps, traps, 1, sunk="`/#`: copies"),
    ]
    return Outcome(Crawl(("calendar",), 1_000, workers=workers), 1_600, 10.0, sites)


def test_a_trap_is_missed_from_a_hundredth_of_the_fetches_on() -> None:
    assert (outcome(9).missed(), outcome(10).missed()) == ([], ["calendar"])
    assert "| 10 | 1.00% | 1.05% | `/#`: copies | **missed** |" in trap_report.crawl_table(outcome(10))
    whole = Outcome(Crawl(("forum",), 1_000, hosts=0), 100, 10.0, [Site("forum", 100, 99, 1)])
    assert whole.missed() == ["forum"]
    assert "| 99 of 100 |" in trap_report.crawl_table(whole)
    assert (
        Crawl(("forum",), 1_000, hosts=5, beside=400).title == "The forum beside 5 honest hosts of 400 pages"
    )


def test_requests_are_counted_by_site() -> None:
    asked = ["host1.example1.test:80 / 200", "n1.subdomains.test:80 / 200"]
    asked += [asked[0], "host2.example2.test:80 /robots.txt 200", "host2.example2.test:80 /no/such/page 404"]
    asked += ["n2.subdomains.test:80 /robots.txt 200"]
    found = trap_report.counted(asked)
    assert found == [Site("honest hosts", 3, 1, 1, again=1), Site("subdomains", 1, 1, 1)]
    crawl = Crawl(("subdomains",), 1_000)
    assert ". 1 of them had been asked for before.\n" in trap_report.crawl_table(
        Outcome(crawl, 1_600, 1.0, found)
    )


def test_pages_count_that_existed_when_they_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths of honest pages have words of the documentation, which somebody may edit during a crawl."""
    web = TrapWeb(free_port("0.0.0.0"), 2_000, hosts=4)
    page = links(web, web.start(1))[0]
    with served(web, free_dns_port(), tmp_path / "log"):
        for path, status in ((urlsplit(page).path, 200), ("/no/such/page", 404)):
            connection = HTTPConnection("127.0.0.1", web.port, timeout=10)
            connection.request("GET", path, headers={"Host": urlsplit(page).netloc})
            assert connection.getresponse().status == status
            connection.close()
    (tmp_path / "edited.md").write_text("other words " * 50)
    monkeypatch.setattr(trap_sites, "DOCS", tmp_path)
    monkeypatch.setattr(trap_sites, "prose", cache(trap_sites.Prose))
    asked = [request for _, request in requests(tmp_path / "log")]
    assert trap_report.counted(asked) == [Site("honest hosts", 2, 1, 0)]


def test_a_file_and_a_page_keep_the_crawls_of_earlier_runs(tmp_path: Path) -> None:
    file, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text(f"before\n{trap_report.SECTION.begin}\nold\n{trap_report.SECTION.end}\nafter\n")
    trap_report.write([outcome(5), outcome(6, workers=2)], "2026-01-01", file, None)
    trap_report.write([outcome(7)], "2026-01-02", file, page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert text.count("Measured on 2026-01-02") == text.count("Measured on 2026-01-01") == 1
    assert "| 7 | 0.70% |" in text
    assert "| 6 | 0.60% |" in text
    assert "| 5 |" not in text
