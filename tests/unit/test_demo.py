"""The demo web: fully linked, reproducible, and with the usual problems of real sites."""

from __future__ import annotations

import http.client
import re
from urllib.parse import urljoin, urlsplit

from webcrawl.demo import SLOW_SECONDS, DemoResponse, demo_pages, demo_web
from webcrawl.documents.simhash import simhash64
from webcrawl.documents.simhash_blocks import distance

# unlike the ports of the command, which may be running
FIRST_PORT = 18771
UNFOLLOWED = ("/slow.html", "/silent.html", "/private/diary.html")
ORIGINS = ["http://one.example", "http://two.example", "http://three.example"]


def fetch(url: str) -> tuple[int, bytes, str]:
    """Returns status, body and Location, without following redirects."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    connection.request("GET", parts.path)
    response = connection.getresponse()
    found = response.status, response.read(), response.headers.get("Location", "")
    connection.close()
    return found


def prose(answer: DemoResponse) -> str:
    """The text of a page without its tags."""
    return re.sub("<[^>]*>", " ", answer.body.decode())


def follow_links(start: str) -> dict[str, int]:
    """The status of every URL reachable from `start`, except slow, silent and private pages."""
    found: dict[str, int] = {}
    waiting = [start]
    while waiting:
        url = waiting.pop()
        if url in found or url.endswith(UNFOLLOWED):
            continue
        status, body, location = fetch(url)
        found[url] = status
        links = [match.decode() for match in re.findall(rb'href="([^"]+)"', body)]
        waiting += [urljoin(url, link) for link in [*links, *([location] if location else [])]]
    return found


def test_every_page_of_the_three_sites_is_linked() -> None:
    with demo_web(FIRST_PORT) as homes:
        assert len(homes) == 3
        found = follow_links(homes[0])
        served = {urljoin(home, path) for home in homes for path in demo_pages(0, ORIGINS)}
    unlinked = {url for url in served if url.endswith(("/robots.txt", *UNFOLLOWED))}
    dead = {urljoin(home, "/gone.html") for home in homes}
    assert found.keys() == (served - unlinked) | dead
    assert {url for url, status in found.items() if status == 404} == dead
    assert list(found.values()).count(301) == 3
    assert sum(url.endswith((".html", "/")) for url in found) >= 55


def test_pages_are_reproducible_and_articles_are_distinct() -> None:
    pages = demo_pages(1, ORIGINS)
    assert pages == demo_pages(1, ORIGINS)
    bodies = [answer.body for path, answer in pages.items() if path.startswith("/article/")]
    assert len(set(bodies)) == len(bodies)
    assert pages["/copy.html"].body == pages["/article/1.html"].body
    assert pages["/slow.html"].delay == SLOW_SECONDS


def test_print_version_is_the_only_near_duplicate() -> None:
    for site in range(len(ORIGINS)):
        pages = demo_pages(site, ORIGINS)
        hashes = {path: simhash64(prose(pages[path])) for path in pages if "/article/" in path}
        printed = simhash64(prose(pages["/print.html"]))
        assert pages["/print.html"].body != pages["/article/1.html"].body
        assert printed is not None
        near = [path for path, known in hashes.items() if known is not None and distance(printed, known) <= 3]
        assert near == ["/article/1.html"]


def test_occupied_ports_are_skipped() -> None:
    with demo_web(FIRST_PORT + 100) as first, demo_web(FIRST_PORT + 100) as second:
        assert [urlsplit(url).port for url in first] == [18871, 18872, 18873]
        assert [urlsplit(url).port for url in second] == [18874, 18875, 18876]
        assert fetch(second[0])[0] == 200
