"""Tests of the fixtures: an empty engine for each test, crawls with results, and killable crawls."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.crawls import Crawl, CrawlResult, scrapy
from tests.web import LocalWeb, generated_web


@pytest.mark.parametrize("turn", [1, 2])
def test_the_engine_is_empty_at_the_start_of_each_test(
    valkey: redis.Redis, redis_url: str, turn: int
) -> None:
    assert valkey.dbsize() == 0
    with redis.Redis.from_url(redis_url) as another:
        another.set("turn", turn)
    assert valkey.get("turn") == str(turn).encode()


def test_a_crawl_returns_its_results(
    run_crawl: Callable[..., CrawlResult], local_web: Callable[..., LocalWeb], tmp_path: Path
) -> None:
    web = local_web("127.0.1.1")
    graph = generated_web(3, web, pages=12)
    home = web.url("127.0.1.1")
    result = run_crawl("broad", [home])
    assert result.data_dir == tmp_path / "data"
    assert result.summary["pages"] == len(graph.reachable(home))
    assert {row["url"] for row in result.rows()} == graph.reachable(home) == set(web.urls())


def test_a_started_crawl_can_be_killed(
    start_crawl: Callable[..., Crawl], local_web: Callable[..., LocalWeb]
) -> None:
    web = local_web("127.0.1.1")
    generated_web(3, web, pages=12)
    crawl = start_crawl("broad", web.url("127.0.1.1"), DOWNLOAD_DELAY=30)
    assert crawl.process.poll() is None
    crawl.kill()
    crawl.wait(10, status=-signal.SIGKILL)


def test_a_command_gets_a_folder_an_environment_and_a_status_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPY_SETTINGS_MODULE", "settings.of.this.process")
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = local\n")
    (tmp_path / "local.py").write_text(
        "import json, os, sys\nTOLD = json.dumps([os.getcwd(), os.environ.get('TOLD'), sys.stdin.read()])\n"
    )
    done = scrapy("settings", "--get", "TOLD", cwd=tmp_path, env={"TOLD": "yes"}, typed="typed")
    assert (done.returncode, json.loads(done.stdout)) == (0, [str(tmp_path), "yes", "typed"]), done.stderr
    assert json.loads(scrapy("settings", "--get", "TOLD", cwd=tmp_path).stdout) == [str(tmp_path), None, ""]
    wrong = scrapy("nonsense", cwd=tmp_path, status=2)
    assert "Unknown command: nonsense" in wrong.stdout
