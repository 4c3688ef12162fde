"""Scrapes metrics as Prometheus does, and looks them up."""

from __future__ import annotations

import shutil
import subprocess
import urllib.request
from collections.abc import Callable
from contextlib import suppress

from prometheus_client.parser import text_string_to_metric_families as parsed

from tests.crawls import Crawl, until


class Scraped:
    """The text of one scrape. `scraped["webcrawl_hosts", "ready"]` is the value with these values of its labels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = {family.name: family for family in parsed(text)}
        self.values: dict[tuple[str, ...], float] = {}
        self.labels: set[str] = set()
        """All values of labels, without the crawls."""
        self.crawls: set[str] = set()
        for family in self.families.values():
            for sample in family.samples:
                labels = {name: value for name, value in sample.labels.items() if name != "crawl"}
                self.values[sample.name, *labels.values()] = sample.value
                self.labels |= set(labels.values())
                self.crawls |= {sample.labels["crawl"]} if "crawl" in sample.labels else set()

    def __getitem__(self, key: str | tuple[str, ...]) -> float:
        return self.values[(key,) if isinstance(key, str) else key]

    def get(self, *key: str) -> float:
        """The value, or 0 if it is not there."""
        return self.values.get(key, 0.0)


def scrape(port: int, accept: str = "") -> Scraped:
    """The metrics at a port of this machine; raises OSError."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=60) as response:
        return Scraped(response.read().decode())


def scraped_when(
    port: int, crawl: Crawl, condition: Callable[[Scraped], bool], seconds: float = 60.0
) -> Scraped:
    """The first scrape for which a condition holds, while the crawl runs."""
    found: list[Scraped] = []

    def holds() -> bool:
        with suppress(OSError):
            found[:] = [scrape(port)]
        return bool(found) and condition(found[0])

    until(holds, crawl, seconds)
    return found[0]


def check_by_promtool(text: str) -> None:
    """Fails if promtool, where it is installed, has something to say about names, units or help."""
    if binary := shutil.which("promtool"):
        done = subprocess.run(
            [binary, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")
