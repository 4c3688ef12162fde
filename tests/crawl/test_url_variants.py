"""`mirror` and `linkcheck` on links that the crawl counts as the same: it fetches one of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.crawl.test_mirror import linked
from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply

SITE = "127.0.1.1"
PAIRS = [
    ("/track?utm_source=a", "/track?utm_source=b"),
    ("/order?b=1&a=2", "/order?a=2&b=1"),
    ("/%c3%a9", "/%C3%A9"),
    ("/s;jsessionid=1", "/s;jsessionid=2"),
    ("/empty?", "/empty"),
    ("/moved?utm_source=a", "/moved"),
]
RunCrawl = Callable[..., CrawlResult]


@pytest.fixture(params=[0, 1], ids=["first form", "second form"])
def web(request: pytest.FixtureRequest, local_web: Callable[..., LocalWeb]) -> LocalWeb:
    """Serves a home page with one form of each link, and a page with the other form."""
    web = local_web(SITE)
    for number, path in enumerate(("/", "/more")):
        links = "".join(f"<a href='{pair[number ^ request.param]}'>x</a>" for pair in PAIRS)
        web.put(SITE, path, f"{links}<a href=/more>more</a>")
    for path in {form.partition("?")[0] for pair in PAIRS for form in pair}:
        moved = path == "/moved"
        web.put(SITE, path, Reply(status=301, headers={"Location": "/track?utm_x=1"}) if moved else "page")
    return web


def test_a_mirror_leads_to_the_form_that_was_fetched(
    web: LocalWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    run_crawl("mirror", [web.url(SITE)], arguments={"to": tmp_path / "copy", "scope": "host"})
    here = tmp_path / "copy" / urlsplit(web.url(SITE)).netloc.replace(":", "_")
    for name in ("index.html", "more.html"):
        targets = linked(here / name)
        assert len(targets) == len(PAIRS) + 1
        assert all(target.exists() for target in targets)
    assert [target.name for target in linked(here / "index.html")] == [
        target.name for target in linked(here / "more.html")
    ]


def test_linkcheck_says_what_became_of_the_form_that_was_fetched(web: LocalWeb, run_crawl: RunCrawl) -> None:
    for path in ("/%c3%a9", "/%C3%A9", "/s;jsessionid=1", "/s;jsessionid=2", "/empty", "/order"):
        web.put(SITE, path, Reply(status=404))
    result = run_crawl("linkcheck", [web.url(SITE)], arguments={"scope": "host"}, status=3)
    lines = (result.data_dir / "linkcheck.jsonl").read_text().splitlines()
    found = {"/" + row["url"].split("/", 3)[3]: row["problem"] for row in map(json.loads, lines)}
    expected = {form: "missing" for pair in PAIRS[1:5] for form in pair}
    expected |= dict.fromkeys(PAIRS[5], "redirect")
    assert found == expected
