"""What an attack costs is counted for the host that causes it, and shown while it lasts and afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crawls import Crawl, CrawlResult, scrapy, until
from tests.web import Hit, LocalWeb, Reply

HONEST, HOSTILE = "127.0.1.1", "127.0.1.2"
DOCUMENTS, SIZE = 8, 100_000
MANY_RULES = "User-agent: *\n" + "".join(
    f"Disallow: /*{number:x}*{number + 1:x}z\n" for number in range(4_000)
)


def host(web: LocalWeb, label: str, data_dir: Path) -> dict[str, Any]:
    done = scrapy("host", "--json", web.host(label), "-s", f"DATA_DIR={data_dir}")
    costs: dict[str, Any] = json.loads(done.stdout)["costs"]
    assert {kind: costs[kind]["name"] for kind in ("host", "domain", "all")} == {
        "host": web.host(label),
        "domain": label,
        "all": "*",
    }
    return costs


def test_the_cause_of_an_attack_is_charged_and_shown(
    local_web: Callable[..., LocalWeb], start_crawl: Callable[..., Crawl], tmp_path: Path
) -> None:
    web, file = local_web(HONEST, HOSTILE), tmp_path / "read now"
    web.put(HOSTILE, "/robots.txt", MANY_RULES)
    documents = "".join(f'<a href="/{number}.waiting">{number}</a>' for number in range(DOCUMENTS))
    web.put(HOSTILE, "/", documents + "<b><i>" * 30_000)
    text = f"{file}\n" + " " * SIZE
    for number in range(DOCUMENTS):
        reply = Reply(f"{text}{number}", headers={"Content-Type": "text/x-waiting"})
        web.put(HOSTILE, f"/{number}.waiting", reply)

    def page(hit: Hit) -> Reply:
        if hit.path == "/robots.txt":
            return Reply(status=404)
        number = int(hit.path[1:] or 0) + 1
        return Reply(f'<a href="/{number}">next</a>' if number < 500 and not file.exists() else "the end")

    web.sites[HONEST]["*"] = page
    running = start_crawl(
        "broad",
        [web.url(HONEST), web.url(HOSTILE)],
        DOWNLOAD_DELAY=0.05,
        PROGRESS_INTERVAL=0.2,
        MIME_TIMEOUT=60,
        ITEM_PIPELINES='{"tests.crawl.waiting.WaitingPipeline": 240}',
    )
    until(lambda: f"over their share, so they wait: {HOSTILE} (" in running.stderr, running)

    def places() -> int:
        now: int = host(web, HOSTILE, running.data_dir)["host"]["load"]["places"]
        return now

    until(lambda: places() >= 2, running)
    assert f"wait: {HONEST}" not in running.stderr
    file.touch()
    result = running.wait(60)
    hostile, honest = (host(web, label, result.data_dir) for label in (HOSTILE, HONEST))
    for kind in ("host", "domain"):
        assert hostile[kind]["cost"]["seconds"] > honest[kind]["cost"]["seconds"] > 0
        assert hostile[kind]["cost"]["waits"] >= 1
        assert honest[kind]["cost"]["waits"] == 0
        assert hostile[kind]["cost"]["bytes"] > DOCUMENTS * SIZE + len(MANY_RULES)
        assert hostile[kind]["load"] == {"connections": 0, "places": 0, "waits": 0}
    for figure in ("bytes", "waits"):
        assert hostile["all"]["cost"][figure] == sum(one["host"]["cost"][figure] for one in (hostile, honest))
    table = scrapy("host", web.host(HOSTILE), "-s", f"DATA_DIR={result.data_dir}").stdout
    assert "seconds of processor" in table
    assert f"of {HOSTILE}" in table


def test_the_bytes_of_an_answer_that_cannot_be_read_are_charged(
    local_web: Callable[..., LocalWeb], crawl: Callable[..., CrawlResult]
) -> None:
    web, interim = local_web(HOSTILE), b"HTTP/1.1 100 Continue\r\n\r\n" * 200
    web.put(HOSTILE, "/robots.txt", Reply(status=404))
    result = crawl([web.put(HOSTILE, "/", Reply(raw=interim))], FRONTIER_MAX_ATTEMPTS=1, status=1)
    assert host(web, HOSTILE, result.data_dir)["host"]["cost"]["bytes"] >= len(interim)
