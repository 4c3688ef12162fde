"""Request meta of scrapy-playwright: honoured in the crawl's own browser, or rejected."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadFailedError, DownloadTimeoutError, NotSupported
from scrapy.http import HtmlResponse

from tests.crawl import test_render
from tests.downloads import Client, run
from tests.web import LocalWeb, Reply
from webcrawl.crawler.components import ResourceRules
from webcrawl.crawler.errors import Postponed, RenderingFailed
from webcrawl.errors import ConfigurationError

pytest.importorskip("webcrawl.crawler.render.render", reason="needs the extra 'render'")
from scrapy_playwright.page import PageMethod

pytestmark = test_render.pytestmark

StartWeb = Callable[..., LocalWeb]
SITE, OTHER = "127.0.1.1", "127.0.1.2"
MORE = """<title>more</title><button id=more onclick="fetch('/more').then(a => a.text()).then(text =>
document.body.insertAdjacentHTML('beforeend', text))">more</button>"""


class Browsing(Client):
    """A client that closes its browser on exit."""

    async def __aexit__(self, *details: Any) -> None:
        if self.session.renderer is not None:
            await self.session.renderer.close()
        await super().__aexit__(*details)

    async def render(self, url: str, **meta: Any) -> HtmlResponse:
        found = await self.get(url, meta={"playwright": True, **meta})
        assert isinstance(found, HtmlResponse)
        return found

    @property
    def contexts(self) -> int:
        """Number of open browser contexts."""
        assert self.session.renderer is not None and self.session.renderer._pages is not None
        return len(self.session.renderer._pages.browser.contexts)


def test_page_methods_are_called_and_awaited(local_web: StartWeb) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", MORE)
    web.put(SITE, "/more", Reply("<p id=rest>the rest", delay=0.2))

    async def check() -> None:
        async with Browsing() as client:
            script = PageMethod("evaluate", "1 + 1")
            methods = [PageMethod("click", "#more"), PageMethod("wait_for_selector", "#rest"), script]
            response = await client.render(web.url(SITE), playwright_page_methods=methods)
            assert "the rest" in response.text and response.flags == ["rendered"]
            assert script.result == 2
            plain = await client.get(web.url(SITE))
            assert "rendered" not in plain.flags, "without RENDER other requests are not rendered"
            missing = PageMethod("click", "#nowhere", timeout=200)
            with pytest.raises(RenderingFailed, match="Timeout 200ms"):
                await client.render(web.url(SITE), playwright_page_methods=[missing])
            broken = PageMethod(lambda page: {}["no"])
            with pytest.raises(RenderingFailed, match="KeyError: 'no'"):
                await client.render(web.url(SITE), playwright_page_methods=[broken])
            assert client.contexts == 0

    run(check(), 60)


def test_contexts_are_isolated_unless_named(local_web: StartWeb) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", Reply("<p>x", headers={"Set-Cookie": "seen=yes", "Content-Type": "text/html"}))

    async def check() -> None:
        async with Browsing(RENDER=SITE) as client:
            for _ in range(2):
                request = Request(web.url(SITE))
                await client.send(request)
                assert "playwright_context" not in request.meta and "playwright_page" not in request.meta
            kwargs = {"locale": "fr-CH", "service_workers": "allow"}
            for _ in range(2):
                await client.render(
                    web.url(SITE), playwright_context="session", playwright_context_kwargs=kwargs
                )
            assert client.contexts == 1
            first, second, third, fourth = web.log(SITE)
            assert "Cookie" not in {*first.headers, *second.headers, *third.headers}
            assert fourth.headers["Cookie"] == "seen=yes"
            assert fourth.headers["Accept-Language"].startswith("fr-CH")

    run(check(), 60)


def test_concurrent_pages_are_isolated_and_register_no_service_worker(local_web: StartWeb) -> None:
    web = local_web(SITE)
    headers = {"Set-Cookie": "seen=yes", "Content-Type": "text/html"}
    register = "<script>navigator.serviceWorker.register('/worker')</script>"
    web.put(SITE, "/first", Reply("<script src=/wait></script>" + register, headers=headers))
    web.put(SITE, "/wait", Reply("", delay=1))
    web.put(SITE, "/worker", Reply("", headers={"Content-Type": "text/javascript"}))
    web.put(SITE, "/second", "<p>x")

    async def check() -> None:
        async with Browsing(RENDER=SITE) as client:
            kwargs = {"service_workers": "allow"}
            first = asyncio.ensure_future(
                client.render(web.url(SITE, "/first"), playwright_context_kwargs=kwargs)
            )
            while "/wait" not in web.paths(SITE):
                await asyncio.sleep(0.01)
            await client.get(web.url(SITE, "/second"))
            await first
            hits = {hit.path: hit.headers for hit in web.log()}
            assert hits.keys() == {"/first", "/wait", "/second"}
            assert "Cookie" in hits["/wait"] and "Cookie" not in hits["/second"]

    run(check(), 60)


def test_meta_that_bypasses_the_guard_or_the_download_is_rejected(local_web: StartWeb) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<p>x")

    async def check() -> None:
        async with Browsing() as client:
            for meta in (
                {"playwright_include_page": True},
                {"playwright_context_kwargs": {"proxy": {"server": "http://127.0.0.1:1"}}},
                {"playwright_context_kwargs": {"user_data_dir": "profile"}},
            ):
                with pytest.raises(NotSupported):
                    await client.render(web.url(SITE), **meta)
            with pytest.raises(NotSupported, match="only GET"):
                await client.get(web.url(SITE), method="POST", meta={"playwright": True})
            assert web.hits == []

    run(check(), 60)


def test_request_can_opt_out_of_rendering(local_web: StartWeb) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<title>x</title><script>document.title = 'y'</script>")

    async def check() -> None:
        async with Browsing(RENDER=SITE) as client:
            response = await client.get(web.url(SITE), meta={"playwright": False})
            assert "rendered" not in response.flags
            assert "<title>y" in (await client.get(web.url(SITE))).text

    run(check(), 60)


def test_request_headers_are_sent_for_the_page_only(local_web: StartWeb) -> None:
    web = local_web(SITE, OTHER)
    web.put(SITE, "/", f"<iframe src={web.url(OTHER, '/frame')}></iframe><script src=/script></script>")
    web.put(OTHER, "/frame", "<p>x")
    web.put(SITE, "/script", "")

    async def check() -> None:
        async with Browsing(USER_AGENT="robot") as client:
            headers = {"X-Key": "secret", "If-None-Match": '"1"', "Accept-Encoding": "none", "Accept": "a/b"}
            meta = {"playwright": True, "playwright_page_goto_kwargs": {"referer": web.url(OTHER)}}
            await client.get(web.url(SITE), headers=headers, meta=meta)
            hits = {hit.path: hit.headers for hit in web.log()}
            assert hits["/"]["X-Key"] == "secret" and hits["/"]["Accept"] == "a/b"
            assert hits["/"]["Referer"] == web.url(OTHER)
            assert "If-None-Match" not in hits["/"] and "gzip" in hits["/"]["Accept-Encoding"]
            assert "X-Key" not in hits["/frame"] and "X-Key" not in hits["/script"]
            assert {headers["User-Agent"] for headers in hits.values()} == {"robot"}

    run(check(), 60)


def test_attachments_and_empty_responses_are_fetched_without_the_browser(local_web: StartWeb) -> None:
    web = local_web(SITE)
    saved = {"Content-Type": "text/html", "Content-Disposition": "attachment; filename=x.html"}
    web.put(SITE, "/saved", Reply("<p>saved", headers=saved))
    web.put(SITE, "/empty", Reply(status=204))

    async def check() -> None:
        async with Browsing() as client:
            assert (await client.get(web.url(SITE, "/saved"), meta={"playwright": True})).body == b"<p>saved"
            assert (await client.get(web.url(SITE, "/empty"), meta={"playwright": True})).status == 204

    run(check(), 60)


def test_failure_is_classified_by_its_cause(local_web: StartWeb) -> None:
    web = local_web(SITE)
    web.put(SITE, "/slow", Reply("", delay=200))
    web.put(SITE, "/endless", "<script>while (true) {}</script>")
    web.put(SITE, "/cut", Reply(abort=True))

    async def failure(client: Browsing, path: str) -> type[Exception]:
        """That of the first time limit within which the page is requested, as on a busy machine it takes seconds."""
        for seconds in (2.0, 8.0, 30.0):
            asked = f"{path}?{seconds}"
            with pytest.raises((RenderingFailed, DownloadTimeoutError, DownloadFailedError)) as caught:
                await client.render(web.url(SITE, asked), download_timeout=seconds)
            is_running = path != "/endless" or type(caught.value) is RenderingFailed
            if asked in web.paths(SITE) and is_running:
                break
        return caught.type

    async def check() -> None:
        async with Browsing() as client:
            await client.render(web.put(SITE, "/", "<p>x"))
            assert await failure(client, "/endless") is RenderingFailed
            assert await failure(client, "/slow") is DownloadTimeoutError
            assert await failure(client, "/cut") is DownloadFailedError
            assert client.contexts == 0
            assert set(Counter(web.paths(SITE)).values()) == {1}, "each page is requested once"

    run(check(), 240)


def test_page_is_postponed_when_its_resources_cannot_be_checked(local_web: StartWeb) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<script src=/script></script>")

    class Ending(ResourceRules):
        async def allows(self, url: str) -> bool:
            raise Postponed("the crawl ends")

    async def check() -> None:
        async with Browsing() as client:
            client.session.components.register(Ending())
            with pytest.raises(Postponed):
                await client.render(web.url(SITE))
            assert web.paths(SITE) == ["/"]

    run(check(), 60)


@pytest.mark.parametrize(
    "name", ["PLAYWRIGHT_CDP_URL", "PLAYWRIGHT_CONNECT_URL", "PLAYWRIGHT_LAUNCH_OPTIONS"]
)
def test_settings_for_another_browser_are_rejected(name: str) -> None:
    async def check() -> None:
        with pytest.raises(ConfigurationError, match=name):
            async with Client(RENDER=SITE, **{name: {"x": 1} if name.endswith("S") else "ws://127.0.0.1"}):
                pass
        async with Client(**{name: {"x": 1}}) as client:
            with pytest.raises(NotSupported, match=name):
                await client.get("http://127.0.0.1:1/", meta={"playwright": True})

    run(check())


def test_settings_of_scrapy_playwright_apply(local_web: StartWeb) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<script src=/script></script><link rel=stylesheet href=/style>")
    settings = {
        "PLAYWRIGHT_CONTEXTS": {"swiss": {"locale": "fr-CH"}},
        "PLAYWRIGHT_ABORT_REQUEST": lambda asked: asked.resource_type == "script",
        "PLAYWRIGHT_PROCESS_REQUEST_HEADERS": None,
    }

    async def check() -> None:
        async with Browsing(**settings) as client:
            meta = {"playwright": True, "playwright_context": "swiss"}
            await client.get(web.url(SITE), headers={"X-Key": "secret"}, meta=meta)
            hits = {hit.path: hit.headers for hit in web.log()}
            assert hits.keys() == {"/", "/style"}
            assert hits["/"]["Accept-Language"].startswith("fr-CH") and "X-Key" not in hits["/"]

    run(check(), 60)
