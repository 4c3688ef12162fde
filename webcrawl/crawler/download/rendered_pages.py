"""Downloads pages through the browser, for the handler of http and https."""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from functools import partial

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotSupported
from scrapy.http import Response

from webcrawl.crawler.access import host_of
from webcrawl.crawler.components import Pacer, ResourceRules
from webcrawl.crawler.errors import Postponed
from webcrawl.crawler.fetch import TRUNCATE, keep_exchange, run_check, wait_to_send
from webcrawl.crawler.session import Session
from webcrawl.errors import ConfigurationError


class RenderedPages:
    """Renders the pages that RENDER or the key `playwright` of Request.meta names."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session

    def wants(self, request: Request) -> bool:
        """Returns whether a request should be rendered; its meta overrides RENDER. Raises NotSupported."""
        wanted, renderer = request.meta.get("playwright"), self._session.renderer
        if wanted is not None:
            if wanted and request.method != "GET":
                raise NotSupported(f"{request}: only GET requests can be rendered.")
            return bool(wanted)
        if renderer is None or request.method != "GET" or TRUNCATE in request.meta:
            return False
        return renderer.rules.apply(request.url)

    async def download(self, request: Request, timeout: float) -> Response | None:
        """Returns the rendered page; None if the response is not HTML and has to be fetched without a browser."""
        try:
            renderer = self._session.need_renderer()
        except ConfigurationError as error:
            raise NotSupported(str(error)) from error
        session, loop = self._session, asyncio.get_running_loop()
        observed, asked = session.observed, time.monotonic()
        # rendering uses none of our connections, but the robots.txt of a resource may need one
        async with session.turns.disconnected(host_of(request)), renderer.slots:
            if observed is not None:
                observed.stage("browser", request.url, asked)
            if session.turns.ending.is_set():
                raise Postponed(f"the crawl ends before {request.url} is rendered")
            await wait_to_send(request)
            began = loop.time()
            check = partial(run_check, request)
            rules = session.components.get(ResourceRules)
            allows = rules.allows if rules else None
            with nullcontext() if observed is None else observed.timed("render", request.url):
                rendered = await renderer.render(request, self._crawler, timeout, check, allows)
        request.meta["download_latency"] = loop.time() - began
        if rendered is None:
            if pacer := session.components.get(Pacer):
                await pacer.take_another_turn(request)
            return None
        response, exchange = rendered
        if exchange is not None:
            keep_exchange(request, exchange)
        return response
