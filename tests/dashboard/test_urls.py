"""The pages about URLs and duplicates; and how all pages about records look to those who use them otherwise."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.dashboard.engine import bury, in_engine
from tests.dashboard.site import (
    ATTACK,
    ATTACK_PATH,
    CLOSED,
    HOME,
    OTHER,
    STORY,
    CrawledSite,
    Dashboard,
    narrow,
)
from tests.metadata import at, row
from webcrawl.documents.document import Document
from webcrawl.frontier import Candidate
from webcrawl.opened import OpenedCrawl
from webcrawl.results.replay import Replay
from webcrawl.stores.metadata import Metadata
from webcrawl.web.pages.archived import replayed_response

OpenPage = Callable[..., Any]


def test_a_url_shows_why_it_is_not_fetched(open_page: OpenPage, site: CrawledSite) -> None:
    page = open_page("/crawls/broad/url")
    page.get_by_text("Which URL?").wait_for()
    page.get_by_role("textbox", name="URL").fill(site.web.url(HOME, "/private/page"))
    page.get_by_role("button", name="Ask").click()
    answer = page.get_by_role("region", name="Answer").inner_text()
    assert "It is not fetched" in answer
    assert 'robots.txt: disallowed; decided by "Disallow: /private/"' in answer
    for url, told in {
        "http://elsewhere.test/": "ScopeFilter: drops it",
        site.web.url(HOME, "/unknown"): "The crawl has not met it",
        site.web.url(HOME, "/gone"): "It answered 404",
        site.web.url(HOME, "/copy"): "An exact copy of another page",
        CLOSED: "It was given up",
    }.items():
        page.goto(f"{site.url}/crawls/broad/url?url={quote(url)}")
        assert told in page.get_by_role("region", name="Answer").inner_text(), url


def test_a_url_shows_redirects_fetches_and_hostile_values_as_text(
    open_page: OpenPage, site: CrawledSite
) -> None:
    moved, copy = site.web.url(HOME, "/moved"), site.web.url(HOME, "/copy")
    page = open_page(f"/crawls/broad/url?url={quote(moved)}")
    assert page.locator(".chain li").all_inner_texts() == [moved, copy]
    assert "302" in page.get_by_role("region", name="Table of fetches").inner_text()
    page = open_page(f"/crawls/broad/url?url={quote(site.web.url(HOME, ATTACK_PATH))}&text={quote(ATTACK)}")
    assert ATTACK in page.locator("main").inner_text()
    assert page.get_by_label("Text of the link").input_value() == ATTACK


def test_a_url_shows_its_visits_as_a_chart(
    open_page: OpenPage, site: CrawledSite, start_dashboard: Callable[..., Dashboard], tmp_path: Path
) -> None:
    url = "http://visited.test/"
    with Metadata(f"sqlite:///{tmp_path}/pages.sqlite") as metadata:
        for hour, digest in enumerate(("sha1:A", "sha1:A", "sha1:B")):
            metadata.upsert([row(url, status=200, digest=digest, fetched_at=at(60 * hour), crawl="broad")])
    page = open_page(f"/crawls/broad/url?url={quote(url)}", site.url)
    assert page.locator(".visits").count() == 0, "nothing to draw"
    dashboard = start_dashboard(data_dir=site.data_dir, METADATA_URI=f"sqlite:///{tmp_path}/pages.sqlite")
    page = open_page(f"/crawls/broad/url?url={quote(url)}", dashboard.url)
    chart = page.get_by_role("img", name="3 fetches over time")
    assert [mark.get_attribute("class") for mark in chart.locator("circle").all()] == [
        "changed",
        "same",
        "same",
    ]
    caption = page.locator(".visits figcaption").inner_text()
    assert "1 changed" in caption and "2 unchanged" in caption


def test_a_dead_url_is_queued_again(open_page: OpenPage, site: CrawledSite) -> None:
    async def fill(opened: OpenedCrawl) -> None:
        await opened.connection.frontier.add([Candidate("http://dead.test", "/1", None)])
        await bury(opened.connection.frontier, [("http://dead.test/1", "status 500")])

    in_engine(site, "one-dead", fill)
    page = open_page("/crawls/one-dead/url?url=http://dead.test/1")
    page.get_by_role("button", name="Queue it again").click()
    page.get_by_text("1 dead letter queued again").wait_for()
    assert "It waits in the queue" in page.get_by_role("region", name="Answer").inner_text()


def test_text_and_links_are_shown(open_page: OpenPage, site: CrawledSite) -> None:
    page = open_page(f"/crawls/broad/url/text?url={quote(site.web.url(HOME, '/copy'))}")
    assert STORY.split(". ")[0] in page.locator(".prose").inner_text()
    page = open_page(f"/crawls/broad/url/links?url={quote(site.web.url(HOME, '/copy'))}")
    row = page.get_by_role("region", name="Table of links").inner_text()
    assert site.web.url(HOME) in row and "{{ 7 * 7 }}" in row
    for path, told in (("text", "There is no text"), ("links", "No stored link leads to it")):
        page = open_page(f"/crawls/broad/url/{path}?url=http://127.0.1.1:1/none")
        page.get_by_text(told).wait_for()


def test_the_archived_page_is_shown_without_its_scripts(chromium: Any, site: CrawledSite) -> None:
    context = chromium.new_context()  # of its own: the console tells what was blocked
    page = context.new_page()
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    url = site.web.url(HOME, ATTACK_PATH)
    page.goto(f"{site.url}/crawls/broad/url/archive?url={quote(url)}")
    assert "HTTP/1.1 200 OK" in page.get_by_role("region", name="Archived headers").inner_text()
    frame = page.frame_locator("iframe.archived")
    assert STORY.split(". ")[0] in frame.locator("body").inner_text()
    assert not page.evaluate("window.attacked") and page.url.startswith(site.url)
    assert {one.split("/", 3)[2] for one in asked} == {site.url.split("/")[2]}
    page.goto(f"{site.url}/crawls/broad/url/archive?url={quote(site.web.url(HOME, '/moved'))}")
    assert ATTACK in page.get_by_role("region", name="Archived headers").inner_text()
    page.goto(f"{site.url}/crawls/broad/url/archive?url={quote(CLOSED)}")
    page.get_by_text("is not in the archive").wait_for()
    context.close()


class Canary:
    """A port that notes whether anything connects to it."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.found = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            self._socket.accept()[0].close()
        except OSError:
            return
        self.found.set()

    def close(self) -> None:
        self._socket.close()


LOADS = """<!doctype html><base href="http://127.0.0.1:{port}/"><LINK rel=preconnect href="http://127.0.0.1:{port}">
<link rel="dns-prefetch" href="//127.0.0.1:{port}"><link rel=stylesheet href=style.css><link rel=prefetch href=next>
<style>@import url(more.css); p {{ background: url(picture.png) }} @font-face {{ font-family: x; src: url(f.woff) }}
p {{ font-family: x }}</style><meta http-equiv=refresh content="0;url=refresh"><script src=script.js></script>
<script>fetch("/fetched"); top.location = "/top"</script><img src=picture.png><iframe src=frame></iframe>
<video src=film.mp4 autoplay></video><object data=thing></object><embed src=other>
<iframe srcdoc="<link rel=preconnect href='http://127.0.0.1:{port}'>"></iframe>
<noscript><b title="</noscript><LINK rel=preconnect href='http://127.0.0.1:{port}'>"></b></noscript><p>Shown"""


def test_an_archived_body_loads_nothing_from_elsewhere(chromium: Any) -> None:
    """The same page connects at once when it is shown without the policy."""
    context = chromium.new_context()
    outcomes = {}
    for name in ("inert", "plain", "inert in UTF-16"):
        canary = Canary()
        text = LOADS.format(port=canary.port)
        body = text.encode("utf-16") if "16" in name else text.encode()
        document = Document(body, "text/html", None, f"http://127.0.0.1:{canary.port}/")
        response = replayed_response(Replay(lambda url: None, "/followed?url=").page(document))
        headers = dict(response.headers) if "inert" in name else {"Content-Type": "text/html"}
        page = context.new_page()
        inner = bytes(response.body) if "inert" in name else body
        page.route("http://dashboard.test/body", serving(headers, inner))
        html = f'<iframe {"sandbox" if "inert" in name else ""} src="/body" title="x"></iframe>'
        page.route("http://dashboard.test/", serving({"Content-Type": "text/html"}, html.encode()))
        page.goto("http://dashboard.test/", wait_until="load" if "inert" in name else "commit")
        if "inert" in name:
            assert page.frame_locator("iframe").locator("p").inner_text() == "Shown"
        outcomes[name] = canary
    assert outcomes["plain"].found.wait(60)
    assert not outcomes["inert"].found.is_set() and not outcomes["inert in UTF-16"].found.is_set()
    context.close()
    for canary in outcomes.values():
        canary.close()


def serving(headers: dict[str, str], body: bytes) -> Callable[[Any], None]:
    return lambda route: route.fulfill(status=200, headers=headers, body=body)


def test_clusters_of_stored_pages_are_shown(open_page: OpenPage, site: CrawledSite) -> None:
    page = open_page("/crawls/broad/duplicates")
    text = page.locator("main").inner_text()
    assert "exact" in text and "near" in text
    assert site.web.url(HOME, "/copy") in text and site.web.url(OTHER) in text
    page.goto(f"{site.url}/crawls/broad/duplicates?host={quote(site.web.host(OTHER))}")
    assert site.web.url(HOME, "/near") not in page.locator("main").inner_text()
    page.get_by_role("textbox", name="Copies of").fill("http://127.0.1.9:9/never")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("No duplicates").wait_for()


@pytest.mark.parametrize(
    "path",
    [
        "hosts?list=fetched",
        "hosts/host?host={host}",
        "url",
        "url?url={attack}",
        "url/text?url={copy}",
        "url/links?url={copy}",
        "url/archive?url={copy}",
        "url/resources?url={copy}",
        "dead-letters",
        "duplicates",
    ],
)
def test_pages_of_hostile_texts_are_accessible_and_fit_a_phone_in_the_dark(
    open_page: Callable[..., Any], check_accessible: Callable[[Any], None], site: CrawledSite, path: str
) -> None:
    known = {"host": site.web.host(HOME), "copy": site.web.url(HOME, "/copy"), "closed": CLOSED}
    known["attack"] = site.web.url(HOME, ATTACK_PATH)
    page = open_page("/crawls/broad/" + path.format(**{name: quote(url) for name, url in known.items()}))
    narrow(page)
    check_accessible(page)
