"""The benchmark of traps: its sites are honest or endless as they say, and its figures follow from the requests."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest

from benchmarks import trap_sites, traps
from benchmarks.servers import free_dns_port, free_port, requests, serving
from benchmarks.trap_sites import TRAPS, serve_prose
from benchmarks.trap_web import TrapWeb
from benchmarks.traps import SiteRequests
from tests.cases import cases

PORT = 80


def links(web: TrapWeb, url: str) -> list[str]:
    parts = urlsplit(url)
    page = web.page(str(parts.hostname), f"{parts.path}?{parts.query}" if parts.query else parts.path)
    assert page is not None, f"{url} does not exist"
    return [urljoin(url, link) for link in re.findall(r'href="([^"]*)"', page)]


def walk(web: TrapWeb, site: str | int, most: int = 1 << 30) -> tuple[dict[str, int], set[str]]:
    """Follows the links of one site; returns the depth of each page that was found, and the links to other sites."""
    start = web.start(site)
    home, depths, others = traps.site_of(start[7:]), {start: 0}, set()
    queue = [start]
    for url in queue:
        if most == 0:
            break
        most -= 1
        for link in links(web, url):
            if traps.site_of(link[7:]) != home or home == "honest hosts" and link[:13] != start[:13]:
                others.add(link)
            elif link not in depths:
                depths[link] = depths[url] + 1
                queue.append(link)
    return depths, others


@cases("name", TRAPS)
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
    assert [outside.count(web.start(name)) for name in TRAPS] == [2] * 7
    alone, kept = TrapWeb(PORT, 2_000, outward=0.0), set[str]()
    for host in range(alone.hosts):
        kept |= walk(alone, host)[1]
    assert kept == {web.start(name) for name in TRAPS} < set(outside)


def test_names_have_addresses_of_which_some_are_shared() -> None:
    web = TrapWeb(PORT)
    assert len({web.address(f"host{n}.example{n}.test") for n in range(50)}) == 41
    assert len({web.address(f"www.{name}.test") for name in TRAPS}) == 7
    assert web.address("n1.subdomains.test") == web.address("www.subdomains.test") == bytes([127, 31, 0, 4])
    others = ("host1.example2.test", "n1.random.test", "www.else.test", "subdomains.example.org")
    assert {web.address(name) for name in others} == {None}


def test_a_trap_is_missed_from_a_hundredth_of_the_fetches_on() -> None:
    honest, trap = SiteRequests("honest hosts", 990, 980, 50), SiteRequests("calendar", 10, 10, 1)
    assert traps.missed([honest, trap]) == ["calendar"]
    assert traps.missed([replace(honest, pages=991), trap]) == []


def test_all_honest_sites_link_to_a_forum_whose_threads_are_all_linked() -> None:
    web = TrapWeb(PORT, 2_000, threads=120)
    assert all(web.start("forum") in links(web, web.start(host)) for host in range(web.hosts))
    found, others = walk(web, "forum")
    assert len([url for url in found if "/thread/" in url]) == 120 and not others
    assert len(found) == web.whole["forum"]
    assert TrapWeb(PORT).address("www.forum.test") is None


def test_all_honest_sites_link_to_a_deep_site_whose_pages_are_all_linked() -> None:
    web = TrapWeb(PORT, 2_000, wide=2)
    assert all(web.start("deep") in links(web, web.start(host)) for host in range(web.hosts))
    found, others = walk(web, "deep")
    assert len(found) == web.whole["deep"] == 1 + 60 * 2 and not others
    assert web.page("www.deep.test", "/part/61/0") is web.page("www.deep.test", "/part/1/2") is None
    assert TrapWeb(PORT).address("www.deep.test") is None


def test_honest_pages_come_first_beside_a_forum() -> None:
    web = TrapWeb(PORT, 60, hosts=2, traps=(), threads=9)
    honest = [f"host0.example0.test:80 /{n} 200" for n in range(web.honest_pages)]
    paths = ["/", "/list/0", *(f"/thread/{n}" for n in range(9))]
    honest += [f"www.forum.test:80 {path} 200" for path in paths]
    farm, robots = ["127.99.1.2:80 / 200"] * len(honest), ["127.99.1.2:80 /robots.txt 404"] * 99
    assert traps.missed_beside_forum([*robots, *honest, *farm], web, 2 * len(honest)) == []
    first, *rest = traps.missed_beside_forum([*farm, *honest], web, 2 * len(honest))
    assert first == f"traps {len(honest)} of the first {len(honest)}"
    assert [text.partition(" ")[0] for text in rest] == ["honest", "forum"]


def test_requests_are_counted_by_site() -> None:
    asked = ["host1.example1.test:80 / 200", "n1.subdomains.test:80 / 200"]
    asked += [asked[0], "host2.example2.test:80 /robots.txt 200", "host2.example2.test:80 /no/such/page 404"]
    asked += ["n2.subdomains.test:80 /robots.txt 200"]
    found = traps.counted(asked)
    assert found == [
        SiteRequests("honest hosts", 3, 1, 1, again=1),
        SiteRequests("subdomains", 1, 1, 1),
    ]


def test_pages_count_that_existed_when_they_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths of honest pages have words of the documentation, which somebody may edit during a crawl."""
    web = TrapWeb(free_port("0.0.0.0"), 2_000, hosts=4)
    page = links(web, web.start(1))[0]
    with serving(serve_prose, web, free_dns_port(), tmp_path / "log"):
        for path, status in ((urlsplit(page).path, 200), ("/no/such/page", 404)):
            connection = HTTPConnection("127.0.0.1", web.port, timeout=60)
            connection.request("GET", path, headers={"Host": urlsplit(page).netloc})
            assert connection.getresponse().status == status
            connection.close()
    (tmp_path / "edited.md").write_text("other words " * 50)
    monkeypatch.setattr(trap_sites, "DOCS", tmp_path)
    monkeypatch.setattr(trap_sites, "prose", cache(trap_sites.Prose))
    asked = [request for _, request in requests(tmp_path / "log")]
    assert traps.counted(asked) == [SiteRequests("honest hosts", 2, 1, 0)]
