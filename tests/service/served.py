"""A running `scrapy serve`, and requests to it."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import httpx

from tests.crawls import CHECKOUT, NO_NAMES, TRUSTED, Crawl, inherited, start_python

START_SECONDS = 60.0
LOCAL = "127.0.0.0/8"


@dataclass
class Served:
    """A service at `url`, with a client without token."""

    url: str
    process: Crawl
    client: httpx.Client

    @classmethod
    def start(cls, *options: str, folder: Path, settings: Mapping[str, object]) -> Self:
        """Starts it at a free port and waits until it answers; its worker may fetch from this machine."""
        settings = {"DNS_SERVERS": NO_NAMES, "DOWNLOAD_DELAY": 0, "ALLOWED_NETWORKS": LOCAL, **settings}
        words = ["serve", "--port", "0", *options]
        words += [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
        output = folder / "service"
        with (
            open("/dev/null", "rb") as null,
            output.with_suffix(".out").open("wb") as out,
            output.with_suffix(".err").open("wb") as err,
        ):
            started = start_python("scrapy", words, CHECKOUT, {**inherited(), **TRUSTED}, [null, out, err])
            process = Crawl(started, output, folder)
        until = time.monotonic() + START_SECONDS
        while "Service: " not in (text := output.with_suffix(".out").read_text()):
            assert process.process.poll() is None and time.monotonic() < until, process.stderr
            time.sleep(0.02)
        url = text.split()[1].rstrip("/")
        return cls(url, process, httpx.Client(base_url=url, timeout=60, verify=False, trust_env=False))

    def page(self, url: str, **parameters: str) -> httpx.Response:
        """Asks what is stored about a URL."""
        return self.client.get(f"/v1/pages/{quote(url, safe='')}", params=parameters)

    def fetch(self, *urls: str, wait: float = 60, **more: Any) -> httpx.Response:
        """Asks for pages."""
        return self.client.post("/v1/pages", json={"urls": urls, "wait": wait, **more})

    def stop(self) -> None:
        """Ends it, and waits until its worker and its engine have ended."""
        self.client.close()
        if self.process.process.poll() is not None:
            return
        self.process.process.send_signal(signal.SIGTERM)
        self.process.wait(START_SECONDS)
