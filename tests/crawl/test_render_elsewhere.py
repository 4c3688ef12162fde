"""Rendered pages that go elsewhere: by script, by refresh, or because the spider's page methods lead there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawl import test_render
from tests.crawl.archive import check
from tests.crawl.test_render import OPTIONS, SITE
from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]
ELSEWHERE = "127.0.1.3"
pytestmark = test_render.pytestmark


def test_a_page_that_goes_elsewhere_is_a_redirect(run_crawl: RunCrawl, local_web: StartWeb) -> None:
    """By script or refresh. The target has its own scope, robots.txt and turn, and each hop its row."""
    web = local_web(SITE, ELSEWHERE)
    inside, outside = web.host(SITE), web.host(ELSEWHERE)
    rules = Reply("User-agent: *\nDisallow: /secret", headers={"Content-Type": "text/plain"})
    web.put(SITE, "/robots.txt", rules)
    pages = {
        "/script": "<script>location.href = '/target?by=script'</script>",
        "/replace": "<body onload=\"location.replace('/target?by=replace#top')\">",
        "/refresh": "<meta http-equiv=refresh content='0;url=/target?by=refresh'>",
        "/later": "<script>setTimeout(() => { location = '/target?by=later' }, 100)</script>",
        "/outside": f"<title>outside</title><script>location = '{outside}/never'</script>",
        "/forbidden": "<script>location = '/secret'</script>",
        "/reload": "<title>first</title><script>if (!document.cookie) { document.cookie = 'seen=1'; location.reload() }"
        " else document.title = 'second'</script>",
        "/forever": "<title>forever</title><script>location.reload()</script>",
        "/form": "<title>form</title><form method=post action=/posted></form>"
        "<script>document.forms[0].submit()</script>",
        "/section": "<title>section</title><script>location = '#part'; history.pushState({}, '', '/state')</script>",
        "/frame": "<title>frame</title><iframe src=/framed></iframe>",
    }
    web.put(SITE, "/", "<title>start</title>" + "".join(f"<a href={path}>x</a>" for path in pages))
    for path, markup in pages.items():
        web.put(SITE, path, markup)
    web.put(SITE, "/framed", "<script>location = '/in-frame'</script>")
    web.put(SITE, "/in-frame", "framed")
    for by in ("script", "replace", "refresh", "later"):
        web.put(SITE, f"/target?by={by}", f"<title>{by}</title>")
    result = run_crawl("broad", [web.url(SITE)], scope="host", **{**OPTIONS, "DOWNLOAD_DELAY": 0.05})
    rows = {row["url"].removeprefix(inside): row for row in result.rows()}
    for by in ("script", "replace", "refresh", "later"):
        hop, target = rows[f"/{by}"], rows[f"/target?by={by}"]
        assert (hop["status"], hop["final_url"]) == (302, f"{inside}/target?by={by}"), result.stderr
        assert (target["status"], target["title"], target["referrer"]) == (200, by, f"{inside}/{by}")
    asked = web.paths(SITE)
    assert rows["/outside"]["status"] == 302 and web.log(ELSEWHERE) == [], "not even robots.txt is asked"
    assert rows["/forbidden"]["final_url"] == f"{inside}/secret" and "/secret" not in asked
    assert rows["/reload"]["title"] == "second" and rows["/forever"]["title"] == "forever"
    assert [asked.count(path) for path in ("/reload", "/forever", "/posted")] == [2, 2, 0]
    assert [rows[f"/{name}"]["title"] for name in ("form", "section", "frame")] == [
        "form",
        "section",
        "frame",
    ]
    assert "/in-frame" in asked and "/state" not in asked
    starts = sorted(hit.started for hit in web.log(SITE) if hit.path.startswith("/target"))
    assert all(after - before >= 0.05 for before, after in zip(starts, starts[1:], strict=False))
    assert "Traceback" not in result.stderr
    check(result.data_dir)


SPIDER = """
from scrapy import Request
from scrapy_playwright.page import PageMethod
from webcrawl.spiders.base import BroadSpider

class Pressing(BroadSpider):
    name = "pressing"

    def parse(self, response):
        yield self.page(response)
        if response.url.endswith("/x"):
            for number in range(3):
                methods = [PageMethod("click", f"#link{number}"), PageMethod("wait_for_timeout", 200)]
                meta = {"playwright": True, "playwright_page_methods": methods}
                yield Request(f"{response.url}?{number}", meta=meta, errback=self.errback)
"""


@pytest.mark.slow
def test_page_methods_may_lead_to_another_page(
    run_crawl: RunCrawl, local_web: StartWeb, tmp_path: Path
) -> None:
    """Also through a redirect, and not to what robots.txt disallows."""
    web = local_web(SITE)
    rules = Reply("User-agent: *\nDisallow: /secret", headers={"Content-Type": "text/plain"})
    web.put(SITE, "/robots.txt", rules)
    links = "/sub/pressed", "/sub/moved", "/sub/to_secret"
    anchors = [f"<a id=link{number} href={path}>x</a>" for number, path in enumerate(links)]
    web.put(SITE, "/x", "<title>x</title>" + "".join(anchors))
    web.put(SITE, "/sub/to_secret", Reply(status=302, headers={"Location": "/secret"}))
    web.put(SITE, "/sub/pressed", "<title>pressed</title>")
    web.put(SITE, "/sub/moved", Reply(status=302, headers={"Location": "target"}))
    web.put(SITE, "/sub/target", "<title>target</title>")
    (tmp_path / "pressing.py").write_text(SPIDER)
    result = run_crawl(
        "pressing",
        [web.url(SITE, "/x")],
        env={"PYTHONPATH": str(tmp_path)},
        SPIDER_MODULES="pressing",
    )
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    assert (rows["/x?0"]["status"], rows["/x?0"]["title"]) == (200, "pressed"), result.stderr
    assert (rows["/x?1"]["status"], rows["/x?1"]["title"]) == (200, "target")
    asked = web.paths(SITE)
    assert [asked.count(path) for path in ("/sub/pressed", "/sub/target", "/secret")] == [1, 1, 0]
