"""The archived page in the dashboard: with images and styles, from the archive alone, and without any rights."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from tests.crawls import Crawl
from tests.dashboard.site import CrawledSite, Dashboard
from tests.web import LocalWeb, Reply

OpenPage = Callable[..., Any]
HOME, PICTURES = "127.0.3.1", "127.0.3.2"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TOKEN = "operator-token-of-this-test"
ATTACKS = """<script>top.location = "/attacked"; parent.attacked = 1; fetch("/crawls/broad")</script>
<body onload="document.title = 'attacked'"><meta http-equiv="refresh" content="0;url=/refreshed">
<svg onload="top.attacked = 2"><script>top.attacked = 3</script><a xlink:href="/svg"><text y="20">svg</text></a></svg>
<form action="/crawls/broad/stop" method="post"><button id="send">Send</button></form>
<iframe srcdoc="<script>top.attacked = 4</script><link rel=preconnect href='{canary}'>"></iframe>
<iframe src="data:text/html,<script>top.attacked=5</script><link rel=preconnect href='{canary}'>"></iframe>
<noscript><p title="</noscript><link rel=preconnect href='{canary}'>"></p></noscript>
<object data="/object.svg"></object><embed src="/embed.svg"><link rel="preconnect" href="{canary}">"""


def page_web() -> LocalWeb:
    """A page with a style sheet, images and a frame on two hosts, and one that attacks whoever shows it."""
    web = LocalWeb(HOME, PICTURES)
    picture = Reply(PIXEL, headers={"Content-Type": "image/png"})
    for path in ("/pixel.png", "/back.png"):
        web.put(PICTURES, path, picture)
    css = (
        f"@import 'more.css'; h1 {{ color: rgb(1, 2, 3); background: url({web.url(PICTURES, '/back.png')}) }}"
    )
    web.put(HOME, "/style.css", Reply(css, headers={"Content-Type": "text/css"}))
    web.put(HOME, "/more.css", Reply("p { color: rgb(4, 5, 6) }", headers={"Content-Type": "text/css"}))
    web.put(HOME, "/frame", "<title>frame</title><p id=inner>In the frame</p>")
    web.put(HOME, "/second", "<title>second</title><p>The second page</p>")
    web.put(HOME, "/gone.png", Reply(status=404))
    web.put(
        HOME,
        "/",
        f"""<!doctype html><title>home</title><link rel=stylesheet href=style.css><h1>Heading</h1><p>Text</p>
        <img id=pixel src="{web.url(PICTURES, "/pixel.png")}" width=40 alt=pixel>
        <img id=gone src=gone.png alt=gone>
        <iframe src=frame title=frame></iframe><a href=second target=_blank>Onwards</a><a href=hostile>hostile</a>""",
    )
    return web


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CrawledSite]:
    """The web, crawled once with what its pages load, and a dashboard that needs a token."""
    folder = tmp_path_factory.mktemp("replayed")
    with page_web() as web, ExitStack() as stack:
        web.put(HOME, "/hostile", ATTACKS.format(canary=web.url(PICTURES)))
        # the second host is a seed too: other addresses of this machine are not for pages to name
        seeds = [web.url(HOME), web.url(PICTURES, "/pixel.png")]
        crawl = Crawl.start("broad", seeds, folder=folder, data_dir=folder / "data", PAGE_RESOURCES=True)
        stack.callback(crawl.kill)
        crawl.wait()
        tokens = folder / "tokens"
        tokens.write_text(f"operator {TOKEN}\n")
        tokens.chmod(0o600)
        dashboard = Dashboard.start(
            "--tokens", str(tokens), folder=folder, settings={"DATA_DIR": folder / "data"}
        )
        stack.callback(dashboard.process.kill)
        yield CrawledSite(web, folder / "data", dashboard)


@pytest.fixture
def open_replayed(open_page: OpenPage, replayed: CrawledSite) -> Callable[[str], Any]:
    """Logs in, and opens a page of the dashboard."""

    def open_(path: str) -> Any:
        page = open_page(f"/login?next={quote(path)}", replayed.url)
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url(f"**{path.partition('?')[0]}*", wait_until="load")
        return page

    return open_


def archive_of(site: CrawledSite, path: str) -> str:
    return f"/crawls/broad/url/archive?url={quote(site.web.url(HOME, path), safe='')}"


def test_an_archived_page_has_its_images_styles_and_frames_without_a_request_to_its_site(
    open_replayed: Callable[[str], Any], replayed: CrawledSite
) -> None:
    before = len(replayed.web.log())
    page = open_replayed(archive_of(replayed, "/"))
    asked: list[str] = []
    page.context.on("request", lambda request: asked.append(request.url))
    page.reload(wait_until="load")
    frame = page.frame_locator("iframe.archived")
    # no script of a page can run there, but those of the test do
    assert frame.locator("h1").evaluate("node => getComputedStyle(node).color") == "rgb(1, 2, 3)"
    assert frame.locator("p").first.evaluate("node => getComputedStyle(node).color") == "rgb(4, 5, 6)"
    assert frame.locator("#pixel").evaluate("node => node.naturalWidth") == 1
    assert "data:image/png" in frame.locator("h1").evaluate("node => getComputedStyle(node).backgroundImage")
    assert frame.locator("#gone").get_attribute("title").endswith("/gone.png")
    assert frame.locator("#gone").evaluate("node => node.naturalWidth") > 1
    assert frame.frame_locator("iframe").locator("#inner").inner_text() == "In the frame"
    of_dashboard = [url for url in asked if not url.startswith("data:")]
    assert of_dashboard and all(url.startswith(replayed.url) for url in of_dashboard), of_dashboard
    assert len(replayed.web.log()) == before


def test_a_followed_link_opens_the_archived_page_of_its_target(
    open_replayed: Callable[[str], Any], replayed: CrawledSite
) -> None:
    before = len(replayed.web.log())
    page = open_replayed(archive_of(replayed, "/"))
    link = page.frame_locator("iframe.archived").get_by_text("Onwards")
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{archive_of(replayed, '/second')}")
    assert page.frame_locator("iframe.archived").locator("p").inner_text() == "The second page"
    page.go_back()
    page.wait_for_url(f"**{archive_of(replayed, '/')}")
    page.frame_locator("iframe.archived").get_by_text("Onwards").wait_for()
    assert len(replayed.web.log()) == before


def test_a_hostile_page_neither_runs_nor_connects_nor_reads_the_dashboard(
    open_replayed: Callable[[str], Any], replayed: CrawledSite
) -> None:
    connections: list[str] = []
    page = open_replayed(archive_of(replayed, "/second"))
    before = len(replayed.web.log())
    page.context.on("request", lambda request: connections.append(request.url))
    page.goto(replayed.url + archive_of(replayed, "/hostile"), wait_until="load")
    inner = page.frames[1]
    assert page.evaluate("[window.attacked, location.pathname]") == [None, "/crawls/broad/url/archive"]
    # scripts of this test may run where those of the page may not; its origin has no right to the dashboard
    assert inner.evaluate("self.origin") == "null"
    assert inner.evaluate(
        "(() => { try { return document.cookie } catch (error) { return error.name } })()"
    ) in (
        "",
        "SecurityError",
    )
    assert (
        inner.evaluate(
            "(() => { try { return parent.document.title } catch (error) { return error.name } })()"
        )
        == "SecurityError"
    )
    assert page.frame_locator("iframe.archived").locator("script, meta, embed, link").count() == 0
    assert page.frame_locator("iframe.archived").locator("[onload], [srcdoc], [action]").count() == 0
    assert {url.partition("?")[0] for url in connections if not url.startswith("data:")} <= {
        replayed.url + path
        for path in (
            "/crawls/broad/url/archive",
            "/crawls/broad/url/body",
            *(f"/static/{name}" for name in ("style.css", "records.css", "live.js", "replay.js", "icon.svg")),
        )
    }
    assert len(replayed.web.log()) == before


def test_what_a_page_loads_is_listed(open_replayed: Callable[[str], Any], replayed: CrawledSite) -> None:
    page = open_replayed(archive_of(replayed, "/"))
    page.get_by_role("link", name="What it loads").first.click()
    rows = page.get_by_role("region", name="Table of resources").locator("tbody tr")
    assert "gone.png" in rows.first.inner_text() and "not in the archive" in rows.first.inner_text()
    shown = [row for row in rows.all_inner_texts() if "\tshown\t" in row]
    assert [
        any(name in row for row in shown) for name in ("style.css", "more.css", "pixel.png", "back.png")
    ] == [True] * 4
    assert "style.css" in page.locator("main").inner_text()


def test_a_page_without_a_token_shows_no_archive(replayed: CrawledSite) -> None:
    with pytest.raises(HTTPError, match="401"):
        urlopen(f"{replayed.url}/crawls/broad/url/body?url={quote(replayed.web.url(HOME))}")
    followed = urlopen(f"{replayed.url}/followed?url=x")
    assert followed.status == 200 and "Set-Cookie" not in followed.headers
