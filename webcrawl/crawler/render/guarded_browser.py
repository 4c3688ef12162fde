"""A Chromium that can reach the network only through the crawl's guarded proxy."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from playwright.async_api import Browser, BrowserContext, Error
from scrapy.exceptions import NotSupported
from scrapy_playwright.handler import Config
from scrapy_playwright.provider import PlaywrightBrowserProvider

from webcrawl.crawler.render.guarded_proxy import GuardedProxy

_ARGUMENTS = (
    # no way around the proxy: the browser resolves no names and sends nothing by UDP
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--js-flags=--max-old-space-size=512",
)


class GuardedBrowser(PlaywrightBrowserProvider):
    """scrapy-playwright's browser provider, for a Chromium behind `proxy`."""

    playwright: Any
    playwright_context_manager: Any

    def __init__(self, config: Config, executable: str | None, proxy: GuardedProxy) -> None:
        super().__init__(config)
        self._executable = executable
        self._proxy = proxy

    async def launch_browser(self) -> Browser:
        """Starts a browser, after closing what a crashed one left open."""
        await self.close()
        proxy = await self._proxy.__aenter__()
        self.config.launch_options = {
            "executable_path": self._executable,
            "args": list(_ARGUMENTS),
            "proxy": {
                "server": proxy.url,
                "bypass": "<-loopback>",
                "username": proxy.user,
                "password": proxy.password,
            },
            # Chromium's sandbox does not work for root
            "chromium_sandbox": os.geteuid() != 0,
            "handle_sigint": False,
            "handle_sigterm": False,
            "handle_sighup": False,
        }
        await self.start()
        browser: Browser = await super().launch_browser()
        return browser

    async def launch_persistent_context(self, context_kwargs: dict[str, Any]) -> BrowserContext:
        raise NotSupported(
            "user_data_dir is not supported: it would start a browser that bypasses the address guard."
        )

    async def close(self) -> None:
        if self.playwright is not None:
            with suppress(Error):
                await super().close()
            self.playwright = self.playwright_context_manager = None
            await self._proxy.__aexit__()
