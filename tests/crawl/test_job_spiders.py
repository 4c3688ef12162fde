"""Spiders that read what they have stored, as jobs: each iteration has a DATA_DIR and a crawl of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crawl.operations import BEGIN, Operations
from tests.web import LocalWeb, Reply
from webcrawl.jobs.records import Iteration
from webcrawl.stores.metadata import Metadata

SITE, OTHER = "127.0.1.1", "127.0.1.2"


def apply(operations: Operations, web: LocalWeb, spider: str, **more: Any) -> None:
    values = {"name": "watch", "cron": "0 0 1 1 *", "state": "ON", "spider": spider, "seeds": [web.url(SITE)]}
    operations.store.apply([{**values, "arguments": {"scope": "host"}, **more}], BEGIN)


def report(iteration: Iteration, name: str) -> dict[str, str]:
    """Returns the paths in the report of an iteration, with the change or problem of each."""
    lines = (Path(str(iteration.data_dir)) / f"{name}.jsonl").read_text().splitlines()
    return {
        "/" + row["url"].split("/", 3)[3]: row.get("change") or row["problem"]
        for row in map(json.loads, lines)
    }


def put(web: LocalWeb, **texts: str) -> None:
    """Sets pages by name, and the home page that links to them."""
    for name, text in texts.items():
        web.put(SITE, f"/{name}", f"<h1>{name}</h1><p>{text}</p>")
    web.put(SITE, "/", "".join(f"<a href=/{name}>{name}</a>" for name in texts))


@pytest.fixture(params=[pytest.param("own files", marks=pytest.mark.slow), "shared stores"])
def stores(request: pytest.FixtureRequest, operations: Operations) -> str:
    """Where pages are: in the folders of the jobs, or in a store and a database that all iterations have."""
    if request.param == "shared stores":
        operations.more["STORE_URI"] = (operations.folder / "store").as_uri()
        operations.more["METADATA_URI"] = f"sqlite:///{operations.folder}/rows.db"
    return str(request.param)


@pytest.mark.timeout(600)
def test_monitor_compares_with_the_iteration_before(
    operations: Operations, stores: str, local_web: Callable[..., LocalWeb]
) -> None:
    """Also if the job keeps a single iteration, and the last one failed or was stopped."""
    web = local_web(SITE)
    put(web, same="as ever", edited="old", gone="here", late="old")
    apply(operations, web, "monitor", keep={"iterations": 1})
    operations.start("a")
    first = operations.run_job("watch")
    assert set(report(first, "monitor").values()) == {"new"}

    put(web, same="as ever", edited="new", late="old", added="new")
    second = operations.run_job("watch")
    found = report(second, "monitor")
    assert found == {
        "/": "changed",
        "/same": "unchanged",
        "/edited": "changed",
        "/late": "unchanged",
        "/added": "new",
        "/gone": "gone",
    }
    lines = (Path(str(second.data_dir)) / "monitor.jsonl").read_text()
    assert '"-old"' in lines and '"+new"' in lines

    # a run that cannot compare leaves the comparison to the next
    apply(operations, web, "monitor", keep={"iterations": 1}, settings={"CRAWL_MAX_PAGES": 1})
    operations.run_job("watch")
    put(web, same="as ever", edited="new", late="new")
    apply(operations, web, "monitor", keep={"iterations": 1})
    operations.jobs("sweep")
    assert [row.deleted is None for row in operations.store.iterations("watch")] == [True, False, False]
    fourth = operations.run_job("watch")
    assert report(fourth, "monitor") == {
        "/": "changed",
        "/same": "unchanged",
        "/edited": "unchanged",
        "/late": "changed",
        "/added": "gone",
    }
    # nothing is kept any more of the pages that only the deleted iterations have fetched
    operations.jobs("sweep")
    with Metadata(
        operations.more.get("METADATA_URI", f"sqlite:///{fourth.data_dir}/metadata.db")
    ) as metadata:
        assert [metadata.get(web.host(SITE) + path) is None for path in ("/late", "/gone", "/added")] == [
            *(False, True, True)
        ]
    operations.jobs("delete", "watch", "--history")
    assert not list(operations.folder.glob("data/jobs/watch/*"))
    if stores == "shared stores":
        assert not list(operations.folder.glob("store/*"))
        with Metadata(operations.more["METADATA_URI"]) as metadata:
            assert metadata.count() == 0


@pytest.mark.timeout(600)
def test_a_job_that_revisits_asks_whether_pages_have_changed(
    operations: Operations, stores: str, local_web: Callable[..., LocalWeb]
) -> None:
    web = local_web(SITE)
    put(web, page="text")
    page = Reply("<p>text", headers={"ETag": '"1"'})
    web.put(SITE, "/page", page)
    apply(operations, web, "broad", settings={"REVISIT": True})
    operations.start("a")
    operations.run_job("watch")
    operations.run_job("watch")
    asked = [hit.headers.get("If-None-Match") for hit in web.log(SITE) if hit.path == "/page"]
    assert asked == [None, '"1"']


@pytest.mark.timeout(600)
def test_linkcheck_reports_the_links_of_its_own_iteration(
    operations: Operations, stores: str, local_web: Callable[..., LocalWeb]
) -> None:
    """A page of an earlier iteration is not read, because its links may have been mended since."""
    web = local_web(SITE, OTHER)
    put(web, good="text", old="<a href=/missing>x</a>")
    apply(operations, web, "linkcheck")
    operations.start("a")
    first = operations.run_job("watch")
    assert report(first, "linkcheck") == {"/missing": "missing"}
    assert first.reason == "finished with findings: Links: 1 missing."

    put(web, good="<a href=/other>x</a>")
    second = operations.run_job("watch")
    assert report(second, "linkcheck") == {"/other": "missing"}
    put(web, good="mended")
    third = operations.run_job("watch")
    assert report(third, "linkcheck") == {}
    assert third.reason == "finished"


@pytest.mark.timeout(600)
def test_a_mirror_has_the_pages_of_its_own_iteration(
    operations: Operations, stores: str, local_web: Callable[..., LocalWeb]
) -> None:
    web = local_web(SITE)
    put(web, same="text", gone="text")
    apply(operations, web, "mirror")
    operations.start("a")

    def files(iteration: Iteration) -> list[str]:
        folder = Path(str(iteration.data_dir)) / "mirror"
        return sorted(path.name for path in folder.rglob("*") if path.is_file())

    assert files(operations.run_job("watch")) == ["gone.html", "index.html", "same.html"]
    put(web, same="text")
    assert files(operations.run_job("watch")) == ["index.html", "same.html"]
