"""Pages rendered in a browser: the rendered DOM, blocked addresses, robots.txt, and the browser's lifetime."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.collector import Collector
from tests.crawl.archive import check
from tests.crawl.reparsing import execute, reparse, rows as reparsed
from tests.crawl.test_ftp import archived
from tests.crawls import Crawl, CrawlResult, until
from tests.nameserver import Nameserver, Record
from tests.web import LocalWeb, Reply

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None or find_spec("scrapy_playwright") is None,
    reason="needs the extra 'render' and Chromium (on Debian and Ubuntu: apt install chromium-headless-shell)",
)

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]
SITE, INTERNAL = "127.0.1.1", "127.0.1.2"
OPTIONS: dict[str, Any] = {"RENDER": "127.0.1.1"}

APP = """<!doctype html><html><head><title>loading</title></head><body><div id=app></div><script>
fetch('/data.json').then(answer => answer.json()).then(data => {
  document.title = data.title
  document.getElementById('app').innerHTML = '<a href="' + data.next + '">next</a><img src="/picture.png">'
})
</script></body></html>"""


def app(web: LocalWeb, title: str = "Loaded", following: str = "/second") -> None:
    web.put(SITE, "/", APP)
    web.put(SITE, "/data.json", f'{{"title": "{title}", "next": "{following}"}}')


def processes(folder: Path) -> list[int]:
    """Returns the pids of the browsers whose environment names this data folder."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            is_browser = entry.name.isdigit() and b"chrom" in (entry / "cmdline").read_bytes()
            if is_browser and f"RENDER_TEST={folder}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


ENDLESS = """
from scrapy import Request
from webcrawl.spiders.base import BroadSpider

class Endless(BroadSpider):
    name = "endless"

    def parse(self, response):
        yield from super().parse(response)
        if response.url.endswith("/second"):
            # no other page has so little time, as on a busy machine it takes seconds
            yield Request(response.urljoin("/endless"), meta={"download_timeout": 3}, errback=self.errback)
"""


def test_pages_are_rendered_and_archived(run_crawl: RunCrawl, local_web: StartWeb, tmp_path: Path) -> None:
    web = local_web(SITE)
    app(web)
    web.put(
        SITE, "/robots.txt", Reply("User-agent: *\nDisallow: /secret", headers={"Content-Type": "text/plain"})
    )
    paths = ["/old", "/paper", "/secret", "/broken"]
    web.put(SITE, "/second", "<title>second</title>" + "".join(f"<a href={path}>x</a>" for path in paths))
    web.put(SITE, "/old", Reply(status=302, headers={"Location": "/new"}))
    web.put(SITE, "/new", "<title>new</title><script>document.body.append('by script')</script>")
    web.put(SITE, "/paper", Reply(b"%PDF-1.7\n", headers={"Content-Type": "application/pdf"}))
    web.put(SITE, "/endless", "<script>while (true) {}</script>")
    web.put(SITE, "/broken", Reply("<title>gone</title>", status=410, headers={"X-Robots-Tag": "noindex"}))
    (tmp_path / "endless.py").write_text(ENDLESS)
    result = run_crawl(
        "endless",
        [web.url(SITE)],
        SPIDER_MODULES="endless",
        POLITENESS_BACKOFF=0.3,
        FRONTIER_MAX_ATTEMPTS=1,
        env={"RENDER_TEST": str(tmp_path), "PYTHONPATH": str(tmp_path)},
        **{**OPTIONS, "DOWNLOAD_DELAY": 0.2},
    )
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    assert (rows["/"]["title"], rows["/"]["status"], rows["/"]["mime_type"]) == ("Loaded", 200, "text/html")
    assert rows["/second"]["referrer"] == web.url(SITE)
    assert (rows["/old"]["status"], rows["/old"]["final_url"]) == (302, web.url(SITE, "/new"))
    assert rows["/new"]["title"] == "new"
    assert (rows["/paper"]["mime_type"], rows["/paper"]["status"]) == ("application/pdf", 200)
    assert (rows["/broken"]["status"], rows["/broken"]["title"]) == (410, None)
    assert "took longer" in rows["/endless"]["error"]
    asked = web.paths(SITE)
    assert "/secret" not in asked and "/picture.png" not in asked
    assert {path: asked.count(path) for path in ("/", "/old", "/new")} == {"/": 1, "/old": 1, "/new": 1}
    first, second = [hit for hit in web.log(SITE) if hit.path == "/paper"]
    assert second.started - first.started >= 0.2, "both requests must keep the delay"
    kind, mime_type, body = archived(result.data_dir)[web.url(SITE)]
    assert (kind, mime_type) == ("resource", "text/html") and b"<title>Loaded</title>" in body
    check(result.data_dir)
    assert not processes(tmp_path)
    assert "Traceback" not in result.stderr and "scrapy-playwright" not in result.stderr


def test_queries_of_a_rendered_page_are_in_its_encoding(run_crawl: RunCrawl, local_web: StartWeb) -> None:
    """The page is archived in its encoding, and its links lead where they led in the browser, also when reparsed."""
    web = local_web(SITE)
    page = (
        "<title>你好</title><a href='路?q=你&amp;r=€#你'>你</a><map><area href='/area?q=你'></map>"
        "<link rel=next href='/next?q=你'><iframe src='/frame?q=你'></iframe>"
        "<img srcset='/image?q=你 2x'><meta http-equiv=refresh content='999;url=/refresh?q=你'>"
        "<script>document.body.append('😀')</script>"
    )
    web.put(SITE, "/", Reply(page.encode("gb18030"), headers={"Content-Type": "text/html; charset=gbk"}))
    paths = [
        "/%E8%B7%AF?q=%C4%E3&r=%80",
        *(f"/{name}?q=%C4%E3" for name in ("area", "next", "frame", "refresh")),
    ]
    for path in paths:
        web.put(SITE, path, f"<title>{path}</title>")
    web.put(SITE, "/image?q=%C4%E3", "an image")
    result = run_crawl(
        "broad", [web.url(SITE)], **OPTIONS, PAGE_RESOURCES=True, ALLOWED_NETWORKS="127.0.0.0/8"
    )
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    titles = {path: row["title"] for path, row in rows.items()}
    assert titles == {"/": "你好", "/image?q=%C4%E3": None, **{path: path for path in paths}}
    kind, content_type, body = archived(result.data_dir)[web.url(SITE)]
    assert (kind, content_type, rows["/"]["charset"]) == ("resource", "text/html; charset=gbk", "gbk")
    assert "😀" in body.decode("gb18030")
    execute(result.data_dir, "UPDATE pages SET title = 'old'")
    reparse(result.data_dir)
    assert reparsed(result.data_dir)[web.url(SITE)]["title"] == "你好"


@pytest.mark.slow
def test_the_time_in_the_browser_is_traced(run_crawl: RunCrawl, local_web: StartWeb) -> None:
    """A page that is not HTML is fetched again, and one whose scripts never end has been in the browser too."""
    web = local_web(SITE)
    web.put(SITE, "/", "<a href=/paper>x</a><a href=/endless>x</a>")
    web.put(SITE, "/paper", Reply(b"%PDF-1.7\n", headers={"Content-Type": "application/pdf"}))
    web.put(SITE, "/endless", "<script>while (true) {}</script>")
    with Collector() as collector:
        run_crawl(
            "broad",
            [web.url(SITE)],
            TRACES=True,
            DOWNLOAD_TIMEOUT=4,
            FRONTIER_MAX_ATTEMPTS=1,
            env={"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint},
            **OPTIONS,
        )
    stages: dict[str, set[str]] = {}
    for span in collector.spans:
        if span.name == "page":
            path = span.attributes["url.full"].removeprefix(web.host(SITE))
            stages[path] = {one.name for one in collector.spans if one.trace == span.trace}
    fetched = {"first_byte", "body"}
    assert {path: found & {"browser", "render", "parse", *fetched} for path, found in stages.items()} == {
        "/": {"browser", "render", "parse"},
        "/paper": {"browser", "render", "parse", *fetched},
        "/endless": {"browser", "render"},
    }


ATTACK = """<title>attack</title><iframe src="{0}/frame"></iframe><script src="{0}/script"></script>
<link rel=stylesheet href="{0}/style"><link rel=preload as=fetch href="{0}/preload"><script>
for (const url of ['{0}/fetch', '{1}/fetch', '{2}/fetch']) fetch(url, {{mode: 'no-cors'}}).catch(() => 0)
new WebSocket('{0}/socket'.replace('http', 'ws'))
navigator.sendBeacon('{0}/beacon', 'x')
new Worker(URL.createObjectURL(new Blob(["fetch('{0}/worker', {{mode: 'no-cors'}})"])))
fetch('file:///etc/passwd').catch(() => 0)
window.open('{0}/window')
</script>"""


def test_a_rendered_page_cannot_reach_private_addresses(run_crawl: RunCrawl, local_web: StartWeb) -> None:
    web = local_web(SITE, INTERNAL)
    inside = web.host(INTERNAL)
    port = inside.rpartition(":")[2]
    records = {"rebind.example": [Record("A", INTERNAL)], "localhost.example": [Record("A", "127.0.0.1")]}
    web.put(
        SITE, "/", ATTACK.format(inside, f"http://rebind.example:{port}", f"http://[::ffff:127.0.1.2]:{port}")
    )
    with Nameserver(records) as nameserver:
        result = run_crawl("broad", [web.url(SITE)], DNS_SERVERS=nameserver.address, **OPTIONS)
    assert result.rows()[0]["title"] == "attack", result.stderr
    assert web.paths(INTERNAL) == []
    # the page does reach the address when it is allowed, so the guard blocked it above
    allowed = run_crawl(
        "broad", [web.url(SITE)], ALLOWED_NETWORKS="127.0.0.0/8", CRAWL_ID="allowed", **OPTIONS
    )
    assert allowed.rows()[0]["title"] == "attack"
    reached = web.paths(INTERNAL)
    assert {"/frame", "/script", "/fetch", "/socket", "/worker"} <= {*reached} and "/window" not in reached


PAGE = """<title>page</title><link rel=stylesheet href=/no/style><script src=/no/script></script>
<script src=/ok></script><script src=/moved></script><script src={0}/no/script></script><script src={0}/ok></script>
<iframe src={0}/frame></iframe><iframe src={0}/no/frame></iframe><script>
for (const url of ['/no/fetch', '{0}/no/fetch', '{1}/fetch']) fetch(url, {{mode: 'no-cors'}}).catch(() => 0)
document.body.insertAdjacentHTML("beforeend", "<a href=/second>second</a>")
new Worker(URL.createObjectURL(new Blob(["fetch('{0}/no/worker', {{mode: 'no-cors'}})"])))
</script>"""


@pytest.mark.parametrize("obeys", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_robots_txt_applies_to_the_resources_of_a_rendered_page(
    obeys: bool, run_crawl: RunCrawl, local_web: StartWeb
) -> None:
    web = local_web(SITE, INTERNAL, "127.0.1.3")
    elsewhere, away = web.host(INTERNAL), web.host("127.0.1.3")
    rules = Reply("User-agent: *\nDisallow: /no/", headers={"Content-Type": "text/plain"})
    web.put(SITE, "/robots.txt", rules)
    web.put(INTERNAL, "/robots.txt", rules)
    web.put("127.0.1.3", "/robots.txt", Reply(status=500))
    web.put(SITE, "/", PAGE.format(elsewhere, away))
    # the failed robots.txt of the third host is cached
    web.put(SITE, "/second", f"<title>second</title><script src={away}/script></script>")
    web.put(SITE, "/moved", Reply(status=302, headers={"Location": f"{elsewhere}/no/moved"}))
    web.put(INTERNAL, "/frame", "<script src=/no/of-frame></script><script src=/of-frame></script>")
    result = run_crawl(
        "broad",
        [web.url(SITE)],
        ALLOWED_NETWORKS="127.0.0.0/8",
        POLITENESS_BACKOFF=0.05,
        # the browser must not occupy the only connection, which robots.txt needs
        CONCURRENT_REQUESTS=1,
        ROBOTSTXT_OBEY=obeys,
        **OPTIONS,
    )
    assert sorted(str(row["title"]) for row in result.rows()) == ["page", "second"], result.stderr
    asked = [hit.host + hit.path for hit in web.log()]
    assert {f"{INTERNAL}/ok", f"{SITE}/ok", f"{INTERNAL}/of-frame"} <= {*asked}
    forbidden = {one for one in asked if "/no/" in one} | {*asked} & {"127.0.1.3/fetch", "127.0.1.3/script"}
    if obeys:
        assert not forbidden
        assert [asked.count(f"{host}/robots.txt") for host in (SITE, INTERNAL, "127.0.1.3")] == [1, 1, 1]
        assert result.summary["resources_denied"] == 11 and result.summary["robots_denied"] == 0
    else:
        assert len(forbidden) == 11 and not any("robots" in one for one in asked)


SPIDER = """
from scrapy import Request
from scrapy_playwright.page import PageMethod
from webcrawl.spiders.base import BroadSpider

MORE = {
    "stored": {},
    "held": {"playwright_page_methods": [PageMethod("evaluate", "document.title = 'held'")]},
    "failing": {"playwright_page_methods": [PageMethod("click", "#nowhere", timeout=100)]},
    "refused": {"playwright_include_page": True},
}

class Asking(BroadSpider):
    name = "asking"

    def parse(self, response):
        yield self.page(response)
        if response.url.endswith("/x"):
            for name, more in MORE.items():
                meta = {"playwright": True, "playwright_context_kwargs": {"locale": "fr"}, **more}
                yield Request(f"{response.url}?{name}", meta=meta, errback=self.errback)
"""


def test_rendering_options_of_a_request_survive_the_frontier(
    run_crawl: RunCrawl, local_web: StartWeb, tmp_path: Path
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/x", "<title>x</title><script>document.title = navigator.language</script>")
    (tmp_path / "asking.py").write_text(SPIDER)
    result = run_crawl(
        "asking",
        [web.url(SITE, "/x")],
        env={"PYTHONPATH": str(tmp_path)},
        SPIDER_MODULES="asking",
        FRONTIER_RETRY_DELAY=0.1,
        FRONTIER_MAX_ATTEMPTS=3,
        POLITENESS_MAX_FAILURES=1,
    )
    rows = {row["url"].partition("?")[2]: row for row in result.rows()}
    titles = {query: row["title"] for query, row in rows.items()}
    assert (titles[""], titles["stored"], titles["held"]) == ("x", "fr", "held"), result.stderr
    # failures in the browser do not count against the host
    assert "Timeout 100ms" in rows["failing"]["error"]
    assert "playwright_include_page" in rows["refused"]["error"]
    asked = web.paths(SITE)
    assert asked.count("/x?failing") == 3 and asked.count("/x?refused") == 0
    assert result.summary["retried"] == 2


def test_a_browser_ends_with_its_worker(
    start_crawl: Callable[..., Crawl], local_web: StartWeb, tmp_path: Path
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<title>x</title><script src=/slow></script>")
    web.put(SITE, "/slow", Reply("", delay=8))
    crawl = start_crawl("broad", [web.url(SITE)], env={"RENDER_TEST": str(tmp_path)}, **OPTIONS)
    until(lambda: "/slow" in web.paths(SITE), crawl)
    assert processes(tmp_path)
    os.kill(crawl.process.pid, 9)
    deadline = time.monotonic() + 60
    while processes(tmp_path):
        assert time.monotonic() < deadline, "the browser is still there"
        time.sleep(0.05)


@pytest.mark.parametrize("settings", [{"RENDER_BROWSER": "/no/such/browser"}])
def test_a_missing_browser_is_reported(run_crawl: RunCrawl, settings: dict[str, str]) -> None:
    result = run_crawl("broad", ["http://127.0.0.1:1/"], RENDER="127.0.0.1", **settings, status=2)
    assert "RENDER_BROWSER '/no/such/browser': there is no such program" in result.stderr
    assert (result.returncode, result.stderr.count("\n")) == (2, 1), result.stderr
