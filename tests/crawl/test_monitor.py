"""`scrapy crawl monitor`, run after run over a site that changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.crawl.conftest import Project
from tests.crawls import Crawl, CrawlResult, until
from tests.web import Hit, LocalWeb, Reply

SITE = "127.0.1.1"
RunCrawl = Callable[..., CrawlResult]
ARGUMENTS = {"arguments": {"scope": "host"}, "DOWNLOAD_DELAY": 0, "FRONTIER_MAX_ATTEMPTS": 1}


class Site:
    """Pages whose texts a test changes; every other one has a validator."""

    def __init__(self, web: LocalWeb) -> None:
        self.web = web
        self.conditional: list[str] = []

    def put(self, path: str, text: str) -> None:
        def answer(hit: Hit) -> Reply:
            tag = f'"{abs(hash(text))}"'
            if hit.headers.get("If-None-Match") == tag:
                self.conditional.append(path)
                return Reply("", status=304)
            return Reply(text, headers={"ETag": tag})

        self.web.put(SITE, path, answer if path.startswith("/v") or path == "/" else text)

    def put_home(self, *paths: str) -> None:
        self.put("/", "".join(f"<a href={path}>{path}</a>" for path in paths))


def report(result: CrawlResult) -> dict[str, dict[str, Any]]:
    lines = (result.data_dir / "monitor.jsonl").read_text().splitlines()
    return {"/" + one["url"].split("/", 3)[3]: one for one in map(json.loads, lines)}


def kinds(result: CrawlResult) -> dict[str, str]:
    return {path: one["change"] for path, one in report(result).items()}


PATHS = ("/v-same", "/plain", "/edited", "/v-edited", "/markup", "/gone", "/moved", "/down", "/unlinked")


@pytest.fixture
def site(local_web: Callable[..., LocalWeb]) -> Site:
    site = Site(local_web(SITE))
    site.put_home(*PATHS)
    for path in PATHS:
        site.put(path, f"<title>t</title><h1>Page {path}</h1><p>First line.</p><p>Second line.</p>")
    return site


def change(site: Site) -> dict[str, str]:
    """Some pages change, some go, one is new; returns what is to be said of all."""
    site.put("/edited", "<h1>Page /edited</h1><p>First line.</p><p>Another line.</p><script>x()</script>")
    site.put("/v-edited", "<p>All new.</p>")
    site.put(
        "/markup", "<h1>Page\n/markup</h1><div class=x><p>First line.<p>Second line.</div><script>1</script>"
    )
    site.web.put(SITE, "/gone", Reply("gone", status=404))
    site.web.put(SITE, "/moved", Reply("", status=301, headers={"Location": "/new"}))
    site.put("/new", "<p>new</p>")
    site.put_home(*PATHS[:-1], "/new")
    return {
        "/": "changed",
        "/v-same": "unchanged",
        "/plain": "unchanged",
        "/edited": "changed",
        "/v-edited": "changed",
        "/markup": "unchanged",
        "/gone": "gone",
        "/moved": "gone",
        "/down": "unchanged",
        "/unlinked": "gone",
        "/new": "new",
    }


def fail(site: Site) -> dict[str, str]:
    """One page is here again, two cannot be had; returns what is to be said of those that are not as before."""
    site.put("/gone", "<p>here again</p>")
    site.put_home("/v-same", "/plain", "/down", "/gone")
    site.web.put(SITE, "/down", Reply("", status=500))
    site.web.put(SITE, "/plain", Reply("", status=403))
    return {
        "/": "changed",
        "/gone": "new",
        "/down": "unreachable",
        "/plain": "unreachable",
        # one of those two may lead there
        "/edited": "unseen",
        "/v-edited": "unseen",
        "/markup": "unseen",
        "/new": "unseen",
    }


def run_and_stop(start_crawl: Callable[..., Crawl], site: Site) -> None:
    """A run that is stopped is compared with nothing, and the next one not with it."""
    site.web.hits.clear()
    stopped = start_crawl("monitor", [site.web.url(SITE)], **{**ARGUMENTS, "DOWNLOAD_DELAY": 0.3})
    until(lambda: len(site.web.hits) >= 3, stopped)
    stopped.interrupt()
    assert "was not finished" in stopped.wait().stdout
    site.conditional.clear()


def check_what_is_told(result: CrawlResult, web: LocalWeb) -> None:
    """The details of what `change` did, for programs and for people."""
    found = report(result)
    assert found["/edited"]["diff"][2:] == [
        "@@ -2,2 +2,2 @@",
        " First line.",
        "-Second line.",
        "+Another line.",
    ]
    assert found["/edited"]["before"] < found["/edited"]["fetched_at"]
    assert found["/moved"]["target"] == web.url(SITE, "/new")
    assert f"changed     {web.url(SITE, '/edited')}\n" in result.stdout
    assert "              +Another line.\n" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("UTC: 3 changed, 3 gone, 1 new, 4 unchanged.")


def test_what_changed_from_run_to_run(
    site: Site, run_crawl: RunCrawl, start_crawl: Callable[..., Crawl]
) -> None:
    web, seeds = site.web, [site.web.url(SITE)]
    first = run_crawl("monitor", seeds, **ARGUMENTS)
    assert first.returncode == 0, first.stderr
    assert set(kinds(first).values()) == {"new"}
    assert first.stdout == "Pages, the first run: 10 new.\n"
    run_and_stop(start_crawl, site)

    expected = change(site)
    second = run_crawl("monitor", seeds, **ARGUMENTS)
    assert second.returncode == 0, second.stderr
    assert kinds(second) == expected
    assert site.conditional == ["/v-same"]
    check_what_is_told(second, web)

    expected = fail(site)
    third = run_crawl("monitor", seeds, **ARGUMENTS)
    # what was gone before is not told of again
    assert {path: kind for path, kind in kinds(third).items() if kind != "unchanged"} == expected

    remembered = (third.data_dir / "monitor.json").read_text()
    site.put_home("/v-same")
    limited = run_crawl("monitor", seeds, **ARGUMENTS, HOST_MAX_PAGES=1)
    assert kinds(limited) == {"/": "changed", "/v-same": "unseen", "/gone": "unseen"}

    # the host is given up at a page that nobody knew: what was queued behind it has no row of this run
    (third.data_dir / "monitor.json").write_text(remembered)
    site.put("/", "<p>\x1b[2J\x9b1m</p><a href=/slow>1</a><a href=/gone>2</a>")
    web.put(SITE, "/slow", Reply(delay=1))
    given_up = run_crawl("monitor", seeds, **ARGUMENTS, POLITENESS_MAX_FAILURES=1, DOWNLOAD_TIMEOUT=0.5)
    assert kinds(given_up) == {"/": "changed", "/v-same": "unseen", "/gone": "unseen"}
    assert "\\u001b[2J" in given_up.stdout and not {"\x1b", "\x9b"} & set(given_up.stdout)


def test_a_page_is_not_gone_because_the_crawl_was_told_to_visit_less(site: Site, run_crawl: RunCrawl) -> None:
    seeds = [site.web.url(SITE)]
    site.put_home("/plain", "/edited")
    site.put("/plain", "<p>plain</p><a href=/below>x</a>")
    site.put("/below", "<p>below</p>")

    def unlike(result: CrawlResult) -> dict[str, tuple[str, str | None]]:
        return {
            path: (one["change"], one.get("error"))
            for path, one in report(result).items()
            if one["change"] != "unchanged"
        }

    run_crawl("monitor", seeds, **ARGUMENTS)
    less = run_crawl("monitor", seeds, **ARGUMENTS, DEPTH_LIMIT=1, URL_DENY="/edited")
    told = "visited with another DEPTH_LIMIT and URL_DENY"
    assert unlike(less) == {"/below": ("unseen", told), "/edited": ("unseen", told)}
    # the same again: what is beyond the limit is not told of any more
    again = run_crawl("monitor", seeds, **ARGUMENTS, DEPTH_LIMIT=1, URL_DENY="/edited")
    assert unlike(again) == {}
    more = run_crawl("monitor", seeds, **ARGUMENTS)
    assert unlike(more) == {}
    # the same page, linked further down
    run_crawl("monitor", seeds, **ARGUMENTS, DEPTH_LIMIT=2)
    site.put_home("/plain")
    site.put("/below", "<p>below</p><a href=/edited>x</a>")
    deep = run_crawl("monitor", seeds, **ARGUMENTS, DEPTH_LIMIT=2)
    told = "links beyond DEPTH_LIMIT are not followed"
    assert unlike(deep)["/edited"] == ("unseen", told)
    unlinked = run_crawl("monitor", seeds, **ARGUMENTS)
    assert unlike(unlinked) == {}


THREADS = """
import threading

from spiders.linkcheck import LinkCheck
from spiders.mirror import Mirror
from spiders.monitor import Monitor


def told(spider, name):
    work = getattr(spider, name)

    def watched(*args):
        print("in the main thread:", threading.current_thread() is threading.main_thread())
        return work(*args)

    setattr(spider, name, watched)


for base, work in ((LinkCheck, "_report"), (Mirror, "_write"), (Monitor, "_report")):

    class Watched(base):
        name = f"{base.name}-watched"
        work = work

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            told(self, self.work)

    globals()[base.__name__ + "Watched"] = Watched
del Watched, base, work
"""


@pytest.mark.parametrize("spider", ["linkcheck", "mirror", "monitor"])
def test_what_a_spider_writes_at_its_end_does_not_hold_up_the_event_loop(
    project: Project, local_web: Callable[..., LocalWeb], run_crawl: RunCrawl, spider: str
) -> None:
    project.add_spider("watched", THREADS)
    web = local_web(SITE)
    web.put(SITE, "/", "<p>home")
    options = {"project": project.folder, **ARGUMENTS}
    result = run_crawl(f"{spider}-watched", [web.url(SITE)], **options)
    assert result.returncode == 0, result.stderr
    assert "in the main thread: False\n" in result.stdout
