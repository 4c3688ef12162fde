"""`scrapy crawl monitor`, run repeatedly on a site that changes."""

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
ARGUMENTS = {"FRONTIER_MAX_ATTEMPTS": 1}


class Site:
    """Pages that a test can change; the home page and those named `/v-...` have an ETag."""

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
    """Changes, removes and adds pages; returns the expected report: path -> change."""
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
    """Restores a page and makes two unreachable; returns the expected report without unchanged pages."""
    site.put("/gone", "<p>here again</p>")
    site.put_home("/v-same", "/plain", "/down", "/gone")
    site.web.put(SITE, "/down", Reply("", status=500))
    site.web.put(SITE, "/plain", Reply("", status=403))
    return {
        "/": "changed",
        "/gone": "new",
        "/down": "unreachable",
        "/plain": "unreachable",
        # one of the two unreachable pages may link to these
        "/edited": "unseen",
        "/v-edited": "unseen",
        "/markup": "unseen",
        "/new": "unseen",
    }


def run_and_stop(start_crawl: Callable[..., Crawl], site: Site, pages: int = 2) -> None:
    """Starts a run and interrupts it; an unfinished run makes no comparison."""
    site.web.hits.clear()
    stopped = start_crawl("monitor", [site.web.url(SITE)], **{**ARGUMENTS, "DOWNLOAD_DELAY": 0.3})
    until(lambda: len(site.web.hits) > pages, stopped)
    stopped.interrupt()
    assert "was not finished" in stopped.wait().stdout
    site.conditional.clear()


def check_report_of_change(result: CrawlResult, web: LocalWeb) -> None:
    """Checks the details of the pages changed by `change`, in the file and on stdout."""
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


def test_each_run_reports_the_changes_since_the_last(
    site: Site, run_crawl: RunCrawl, start_crawl: Callable[..., Crawl]
) -> None:
    web, seeds = site.web, [site.web.url(SITE)]
    first = run_crawl("monitor", seeds, **ARGUMENTS)
    assert set(kinds(first).values()) == {"new"}
    assert first.stdout == "Pages, the first run: 10 new.\n"
    run_and_stop(start_crawl, site)

    expected = change(site)
    second = run_crawl("monitor", seeds, **ARGUMENTS)
    assert kinds(second) == expected
    assert site.conditional == ["/v-same"]
    check_report_of_change(second, web)

    expected = fail(site)
    third = run_crawl("monitor", seeds, **ARGUMENTS)
    # pages that were already reported as gone are not reported again
    assert {path: kind for path, kind in kinds(third).items() if kind != "unchanged"} == expected

    remembered = (third.data_dir / "monitor.json").read_text()
    site.put_home("/v-same")
    limited = run_crawl("monitor", seeds, **ARGUMENTS, HOST_MAX_PAGES=1)
    # unreachable pages become unseen too, because they were never gone
    unseen = dict.fromkeys(("/v-same", "/gone", "/down", "/plain"), "unseen")
    assert kinds(limited) == {"/": "changed", **unseen}

    # the host is abandoned at a new page: the pages queued behind it have no row of this run
    (third.data_dir / "monitor.json").write_text(remembered)
    site.put("/", "<p>\x1b[2J\x9b1m</p><a href=/slow>1</a><a href=/gone>2</a>")
    web.put(SITE, "/slow", Reply(delay=1))
    given_up = run_crawl("monitor", seeds, **ARGUMENTS, POLITENESS_MAX_FAILURES=1, DOWNLOAD_TIMEOUT=0.5)
    assert kinds(given_up) == {"/": "changed", **unseen}
    assert "\\u001b[2J" in given_up.stdout and not {"\x1b", "\x9b"} & set(given_up.stdout)


def test_changes_seen_by_a_stopped_run_are_reported_by_the_next_finished_run(
    site: Site, run_crawl: RunCrawl, start_crawl: Callable[..., Crawl]
) -> None:
    seeds, later = [site.web.url(SITE)], [f"/later{number}" for number in range(10)]
    seen = ("/v-edited", "/edited", "/gone", "/down", "/plain")
    for path in later:
        site.put(path, f"<p>{path}")
    site.put_home(*seen, *later)
    run_crawl("monitor", seeds, **ARGUMENTS)

    for path in ("/v-edited", "/edited", "/new"):
        site.put(path, "<p>Another line.")
    for path in ("/gone", "/down"):
        site.web.put(SITE, path, Reply("", status=404))
    site.put_home("/new", *seen, *later)
    # robots.txt, the home page, and the first pages that it links to
    run_and_stop(start_crawl, site, pages=2 + len(seen) + 1)

    site.web.put(SITE, "/down", Reply("", status=500))
    finished = run_crawl("monitor", seeds, **ARGUMENTS)
    assert site.conditional[:2] == ["/", "/v-edited"]
    same = dict.fromkeys(("/plain", *later), "unchanged")
    edited = dict.fromkeys(("/", "/v-edited", "/edited"), "changed")
    assert kinds(finished) == {**same, **edited, "/gone": "gone", "/new": "new", "/down": "unreachable"}
    for path in ("/v-edited", "/edited"):
        assert report(finished)[path]["diff"][3:] == [
            f"-Page {path}",
            "-First line.",
            "-Second line.",
            "+Another line.",
        ]

    site.web.put(SITE, "/down", Reply("", status=404))
    again = run_crawl("monitor", seeds, **ARGUMENTS)
    assert kinds(again) == {**same, **dict.fromkeys((*edited, "/new"), "unchanged"), "/down": "gone"}


def test_changes_during_an_outage_are_reported_after_it(site: Site, run_crawl: RunCrawl) -> None:
    seeds, failing = [site.web.url(SITE)], ("/gone", "/edited", "/plain", "/unlinked")
    site.put_home(*failing, "/moved", "/down")
    run_crawl("monitor", seeds, **ARGUMENTS)
    for path in failing:
        site.web.put(SITE, path, Reply("", status=500))
    site.put_home(*failing, "/down")
    outage = run_crawl("monitor", seeds, **ARGUMENTS)
    expected = {"/": "changed", "/down": "unchanged", "/moved": "unseen"}
    assert kinds(outage) == {**dict.fromkeys(failing, "unreachable"), **expected}

    site.web.put(SITE, "/gone", Reply("", status=410))
    site.put("/edited", "<h1>Page /edited</h1><p>First line.</p><p>Another line.</p>")
    site.put("/plain", "<h1>Page /plain</h1><p>First line.</p><p>Second line.</p>")
    site.put_home("/gone", "/edited", "/plain")
    over = run_crawl("monitor", seeds, **ARGUMENTS)
    lost = dict.fromkeys(("/gone", "/moved", "/down", "/unlinked"), "gone")
    assert kinds(over) == {"/": "changed", "/edited": "changed", "/plain": "unchanged", **lost}
    assert report(over)["/edited"]["diff"][4:] == ["-Second line.", "+Another line."]
    for path in ("/moved", "/down", "/unlinked"):
        assert report(over)[path]["error"] == "no page leads to it"

    quiet = run_crawl("monitor", seeds, **ARGUMENTS)
    assert kinds(quiet) == dict.fromkeys(("/", "/edited", "/plain"), "unchanged")


def test_pages_are_compared_by_the_text_that_they_had(site: Site, run_crawl: RunCrawl) -> None:
    def put(path: str, text: str, content_type: str, charset: str) -> None:
        headers = {"Content-Type": f"{content_type}; charset={charset}"}
        site.web.put(SITE, path, Reply(text.encode(charset), headers=headers))

    seeds, paths = [site.web.url(SITE)], ("/first", "/copy", "/markup", "/greek", "/typed")
    site.put_home(*paths)
    for path in paths[:3]:
        put(path, "<p>\xe4 copy<p>Second line.", "text/html", "iso-8859-1")
    put("/greek", "<p>\u03b1\u03b2\u03b3", "text/html", "iso-8859-7")
    put("/typed", "one\ntwo", "text/plain", "utf-8")
    # a delay, so that the order of the copies is known
    first = run_crawl("monitor", seeds, **{**ARGUMENTS, "DOWNLOAD_DELAY": 0.3})
    assert [row["duplicate_kind"] for row in first.rows()].count("exact") == 2

    put("/first", "<p>All new.", "text/html", "utf-8")
    put("/copy", "<p>\xe4 copy<p>Another line.", "text/html", "utf-8")
    put("/markup", "<div>\xe4 copy</div>Second line.", "text/html", "utf-8")
    put("/greek", "<p>\u03b1\u03b2\u03b3", "text/html", "utf-8")
    put("/typed", "<p>one<p>three", "text/html", "utf-8")
    second = run_crawl("monitor", seeds, **ARGUMENTS)
    same = dict.fromkeys(("/", "/markup", "/greek"), "unchanged")
    assert kinds(second) == {**same, **dict.fromkeys(("/first", "/copy", "/typed"), "changed")}
    found = report(second)
    assert found["/copy"]["diff"][3:] == [" \xe4 copy", "-Second line.", "+Another line."]
    assert found["/typed"]["diff"][3:] == [" one", "-two", "+three"]


def test_pages_beyond_a_tighter_limit_are_unseen_and_not_gone(site: Site, run_crawl: RunCrawl) -> None:
    seeds = [site.web.url(SITE)]
    site.put_home("/plain", "/edited")
    site.put("/plain", "<p>plain</p><a href=/below>x</a>")
    site.put("/below", "<p>below</p>")

    def changes(result: CrawlResult) -> dict[str, tuple[str, str | None]]:
        return {
            path: (one["change"], one.get("error"))
            for path, one in report(result).items()
            if one["change"] != "unchanged"
        }

    run_crawl("monitor", seeds, **ARGUMENTS)
    less = run_crawl("monitor", seeds, **ARGUMENTS, DEPTH_LIMIT=1, URL_DENY="/edited")
    reason = "visited with another DEPTH_LIMIT and URL_DENY"
    assert changes(less) == {"/below": ("unseen", reason), "/edited": ("unseen", reason)}
    # pages beyond the limit are reported only once
    again = run_crawl("monitor", seeds, **ARGUMENTS, DEPTH_LIMIT=1, URL_DENY="/edited")
    assert changes(again) == {}
    more = run_crawl("monitor", seeds, **ARGUMENTS)
    assert changes(more) == {}
    # the same page, linked at a greater depth
    run_crawl("monitor", seeds, **ARGUMENTS, DEPTH_LIMIT=2)
    site.put_home("/plain")
    site.put("/below", "<p>below</p><a href=/edited>x</a>")
    deep = run_crawl("monitor", seeds, **ARGUMENTS, DEPTH_LIMIT=2)
    reason = "links beyond DEPTH_LIMIT are not followed"
    assert changes(deep)["/edited"] == ("unseen", reason)
    unlinked = run_crawl("monitor", seeds, **ARGUMENTS)
    assert changes(unlinked) == {}


THREADS = """
import threading

from webcrawl.spiders.linkcheck import LinkCheck
from webcrawl.spiders.mirror import Mirror
from webcrawl.spiders.monitor import Monitor


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
def test_the_final_report_of_a_spider_is_written_outside_the_main_thread(
    project: Project, local_web: Callable[..., LocalWeb], run_crawl: RunCrawl, spider: str
) -> None:
    project.add_spider("watched", THREADS)
    web = local_web(SITE)
    web.put(SITE, "/", "<p>home")
    options = {"project": project.folder, **ARGUMENTS}
    result = run_crawl(f"{spider}-watched", [web.url(SITE)], **options)
    assert "in the main thread: False\n" in result.stdout


def test_with_stored_links_pages_that_nothing_links_to_are_told_apart(
    local_web: Callable[..., LocalWeb], run_crawl: RunCrawl
) -> None:
    site = Site(local_web(SITE))
    site.put_home("/island", "/missing", "/down")
    site.put("/island", "<a href=/beyond>further</a>")
    site.put("/beyond", "<a href=/island>back</a>")
    site.put("/missing", "a page")
    site.put("/down", "<a href=/behind>behind</a>")
    site.put("/behind", "behind")
    seeds, web = [site.web.url(SITE)], site.web
    first = run_crawl("monitor", seeds, LINKS=True, **ARGUMENTS)
    assert set(kinds(first).values()) == {"new"}, first.stderr
    site.put_home("/missing", "/down")
    web.put(SITE, "/missing", Reply("", status=404))
    web.put(SITE, "/down", Reply("", status=500))
    second = run_crawl("monitor", seeds, LINKS=True, **ARGUMENTS)
    assert kinds(second) == {
        "/": "changed",
        "/island": "unlinked",
        "/beyond": "unlinked",
        "/missing": "gone",
        "/down": "unreachable",
        "/behind": "unseen",
    }
    found = report(second)
    assert found["/island"]["referrers"] == [web.url(SITE), web.url(SITE, "/beyond")]
    assert f"was linked from {web.url(SITE, '/island')}" in second.stdout
    # it linked to nothing else than a page that is known to be linked no more
    web.put(SITE, "/down", "no link")
    third = run_crawl("monitor", seeds, LINKS=True, **ARGUMENTS)
    assert kinds(third) == {"/": "unchanged", "/down": "changed", "/behind": "unlinked"} | dict.fromkeys(
        ("/island", "/beyond"), "unlinked"
    )
