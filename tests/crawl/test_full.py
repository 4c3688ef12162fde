"""A crawl pauses and loses no page while its disk or its upload spool is full."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from tests.crawl import archive
from tests.crawls import CHECKOUT, Crawl, scrapy, until
from tests.s3server import Line, S3Server, weed_binary
from tests.stores.buckets import archived, environment, files
from tests.web import LocalWeb, Reply
from webcrawl.documents.disk import occupied

SITES = tuple(f"127.0.1.{n}" for n in range(1, 5))
PAGES = 20
StartWeb = Callable[..., LocalWeb]
Start = Callable[..., Crawl]


def large_pages(web: LocalWeb) -> list[str]:
    """Publishes incompressible pages of 20 kB; returns all URLs, home pages first."""
    dice = random.Random(5)
    html = {"Content-Type": "text/html"}
    for site in SITES:
        links = "".join(f'<a href="/{number}">x</a>' for number in range(PAGES))
        web.put(site, "/", links)
        for number in range(PAGES):
            web.put(site, f"/{number}", Reply(f"<p>{dice.randbytes(10_000).hex()}", headers=html))
    return [web.url(site) for site in SITES] + [
        web.url(site, f"/{number}") for site in SITES for number in range(PAGES)
    ]


def start(start_crawl: Start, seeds: list[str], **options: Any) -> Crawl:
    """Starts a crawl without retries: FRONTIER_MAX_ATTEMPTS is 1."""
    return start_crawl(
        "broad",
        seeds,
        **{"DOWNLOAD_DELAY": 0.01, "PROGRESS_INTERVAL": 0.2, "FRONTIER_MAX_ATTEMPTS": 1, **options},
    )


def is_holding(crawl: Crawl) -> bool:
    return " holding: " in crawl.stderr.replace("\n", " ") and ": holding, nothing is lost" in crawl.stderr


def wait_until_idle(web: LocalWeb, crawl: Crawl) -> None:
    """Waits until the crawl holds and requests in flight are done, so that no more requests arrive."""
    until(lambda: is_holding(crawl), crawl)
    seen = [-1, len(web.hits)]

    def same() -> bool:
        seen.append(len(web.hits))
        return len(seen) > 200 and seen[-1] == seen[-200]

    until(same, crawl)


def test_a_full_disk_pauses_the_crawl_and_loses_no_page(
    start_crawl: Start, local_web: StartWeb, tmp_path: Path, small_disk: Path
) -> None:
    """The archive and the database are on the full disk; pages that cannot be stored are not failures."""
    web = local_web(*SITES)
    urls = large_pages(web)
    data = tmp_path / "data"
    # a file that fills the disk only once SQLite has allocated and mapped its own files
    ballast = small_disk / "ballast"
    crawl = start(
        start_crawl,
        urls[: len(SITES)],
        STORE_URI=(small_disk / "warc").as_uri(),
        METADATA_URI=f"sqlite:///{small_disk}/pages.db",
        STORE_MIN_FREE_BYTES=0,
    )
    until(lambda: (small_disk / "pages.db").exists() and len(web.hits) > 20, crawl)
    free = os.statvfs(small_disk)
    ballast.write_bytes(b"x" * max(0, free.f_bavail * free.f_frsize - 300_000))
    wait_until_idle(web, crawl)
    assert "No space left on device" in crawl.stderr or "database or disk is full" in crawl.stderr
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    result = crawl.wait(60)
    assert "The stores accept pages again" in result.stderr
    assert (result.summary["finish_reason"], result.summary["dead_letters"]) == ("finished", 0)
    (data / "warc").symlink_to(small_disk / "warc")
    archive.check(data)
    kept = Counter(url for url in archive.records(data, "response") if "robots" not in url)
    kept += Counter(url for url in archive.records(data, "revisit") if "robots" not in url)
    assert kept == Counter(urls), "each page must be archived once"
    assert "Traceback" not in result.stderr


def test_a_large_body_that_cannot_be_spooled_is_fetched_again(
    start_crawl: Start, local_web: StartWeb, tmp_path: Path, small_disk: Path
) -> None:
    """A large body is spooled to a file; a full disk counts neither as a failure nor as an attempt."""
    web = local_web(SITES[0])
    web.put(SITES[0], "/", Reply(random.Random(3).randbytes(400_000), headers={"Content-Type": "image/x"}))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "spool").symlink_to(small_disk)
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 900_000)
    crawl = start(start_crawl, [web.url(SITES[0])], STORE_MIN_FREE_BYTES=0)
    until(lambda: "cannot spool a body" in crawl.stderr, crawl)
    ballast.unlink()
    result = crawl.wait()
    assert (result.summary["finish_reason"], result.summary["dead_letters"]) == ("finished", 0)
    ((row),) = result.rows()
    assert (row["status"], row["length"], row["fetches"], row["attempts"]) == (200, 400_000, 1, 1)
    assert result.summary["failed"] == result.summary["retried"] == 0


def test_a_crawl_pauses_below_store_min_free_bytes(
    start_crawl: Start, local_web: StartWeb, tmp_path: Path
) -> None:
    web = local_web(SITES[0])
    web.put(SITES[0], "/", "<p>hello")
    crawl = start(start_crawl, [web.url(SITES[0])], STORE_MIN_FREE_BYTES=1 << 60)
    until(lambda: is_holding(crawl), crawl)
    shown = scrapy("status", "--json", "-s", f"DATA_DIR={tmp_path / 'data'}")
    (reason,) = json.loads(shown.stdout)["holding"].values()
    assert "less than STORE_MIN_FREE_BYTES" in reason
    crawl.interrupt()
    result = crawl.wait()
    assert (result.returncode, result.summary["finish_reason"]) == (0, "shutdown")
    assert result.summary["dead_letters"] == 0


def test_a_crawl_pauses_at_its_share_of_the_disk_and_continues(
    start_crawl: Start, local_web: StartWeb, tmp_path: Path, small_disk: Path
) -> None:
    """A crawl that was killed at the limit holds again; with room it ends, and no page is fetched twice."""
    web = local_web(*SITES)
    urls = large_pages(web)
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 5_700_000)
    options = {
        "STORE_URI": (small_disk / "warc").as_uri(),
        "STORE_MIN_FREE_BYTES": 0,
        "STORE_MAX_SHARE": 0.7,
        "DOWNLOAD_DELAY": 0.1,  # the disk is looked at once a second
    }
    first = start(start_crawl, urls[: len(SITES)], **options)
    wait_until_idle(web, first)
    assert "STORE_MAX_SHARE is 70%" in first.stderr
    space = os.statvfs(small_disk)
    used = 1 - space.f_bavail / space.f_blocks
    assert 0.7 <= used < 0.95, "it stops soon after the limit"
    shown = scrapy("status", "--json", "-s", f"DATA_DIR={tmp_path / 'data'}")
    (reason,) = json.loads(shown.stdout)["holding"].values()
    assert f"of the disk of {small_disk}/warc are used: STORE_MAX_SHARE is 70%" in reason
    first.kill()
    fetched = len([hit for hit in web.hits if "robots" not in hit.path])
    assert fetched < len(urls)
    second = start(start_crawl, (), **options)
    until(lambda: is_holding(second), second)
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=80m", str(small_disk)], check=True)
    result = second.wait(60)
    assert "The stores accept pages again" in result.stderr
    assert (result.summary["finish_reason"], result.summary["dead_letters"]) == ("finished", 0)
    assert {row["url"] for row in result.rows()} == set(urls)


def test_a_quota_without_a_store_is_refused(start_crawl: Start, local_web: StartWeb) -> None:
    result = start(start_crawl, [local_web(SITES[0]).url(SITES[0])], STORE_QUOTA_BYTES=1_000).wait(status=2)
    assert "STORE_QUOTA_BYTES is the quota of STORE_URI, which is not set" in result.stderr


def test_a_crawl_pauses_at_its_quota_and_continues(
    start_crawl: Start, local_web: StartWeb, tmp_path: Path
) -> None:
    web = local_web(SITES[0])
    web.put(SITES[0], "/", "".join(f"<a href=/{number}>x</a>" for number in range(3)))
    for number in range(3):
        web.put(SITES[0], f"/{number}", Reply(f"page {number}", delay=3))
    old = tmp_path / "store" / "old"
    old.parent.mkdir()
    old.write_bytes(b"x" * 1_400_000)
    options = {
        "STORE_URI": old.parent.as_uri(),
        "STORE_QUOTA_BYTES": 2_000_000,
        "STORE_MAX_SHARE": 0.7,
        "WARC_ROBOTSTXT": False,
    }
    crawl = start(start_crawl, [web.url(SITES[0])], **options)
    until(lambda: is_holding(crawl), crawl)
    assert "of the 2.0 MB for /" in crawl.stderr.replace("\n", " ")
    old.unlink()
    result = crawl.wait()
    assert (result.summary["finish_reason"], len(result.rows())) == ("finished", 4)


@pytest.mark.slow
@pytest.mark.skipif(weed_binary() is None, reason="no S3 server for this platform")
def test_a_crawl_pauses_when_an_s3_outage_fills_the_spool(
    start_crawl: Start, local_web: StartWeb, tmp_path: Path
) -> None:
    web = local_web(*SITES)
    urls = large_pages(web)
    budget = 600_000
    (tmp_path / "s3").mkdir()
    with S3Server(tmp_path / "s3") as server, Line(server.port) as line:
        server.client.create_bucket(Bucket="pages")
        crawl = start(
            start_crawl,
            urls[: len(SITES)],
            env=environment(line),
            STORE_URI="s3://pages/crawl",
            STORE_SPOOL_MAX_BYTES=budget,
        )
        until(lambda: len(web.hits) > 10, crawl)
        server.kill()
        wait_until_idle(web, crawl)
        spool = tmp_path / "data" / "spool" / "pages" / "crawl"
        assert budget <= occupied(spool) < budget + 100_000
        assert "STORE_SPOOL_MAX_BYTES is reached" in crawl.stderr
        server.start()
        result = crawl.wait(60)
        assert (result.summary["finish_reason"], result.summary["dead_letters"]) == ("finished", 0)
        assert not [name for name in files(spool) if ".warc" in name], "WARC files are left in the spool"
        keys = [entry["Key"] for entry in server.client.list_objects_v2(Bucket="pages")["Contents"]]
        objects = {key: server.client.get_object(Bucket="pages", Key=key)["Body"].read() for key in keys}
        rows = result.rows()
        places = [(row["url"], row["warc_file"]) for row in rows if row["url"] in urls]
        assert all(f"crawl/{file}" in objects for _, file in places), "a row's WARC file is not in S3"
        assert Counter(url for url, _ in places) == Counter(urls)
        kept = Counter(
            record.rec_headers["WARC-Target-URI"]
            for key, data in objects.items()
            if key.endswith(".warc.gz")
            for record in ArchiveIterator(io.BytesIO(data))
            if record.rec_type in ("response", "revisit")
        )
        assert {url: kept[url] for url in urls} == dict.fromkeys(urls, 1), "each page must be archived once"
        assert all(row["fetches"] == 1 for row in rows)
        words = [
            sys.executable,
            "-m",
            "scrapy",
            "page",
            urls[-1],
            "--body",
            "-s",
            "STORE_URI=s3://pages/crawl",
        ]
        shown = subprocess.run(
            [*words, "-s", f"DATA_DIR={result.data_dir}"],
            cwd=CHECKOUT,
            env={**os.environ, **environment(line)},
            capture_output=True,
            timeout=60,
        )
        assert shown.stdout == archived(objects)[urls[-1]], shown.stderr
