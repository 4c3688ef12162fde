"""Jobs as an operator runs them: `scrapy jobs`, schedulers as processes, real crawls, a clock that jumps."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.crawl.operations import BEGIN, Operations
from tests.crawls import CHECKOUT, scrapy
from tests.web import LocalWeb, Reply, generated_web
from webcrawl.jobs.schedule import Schedule

DAYS = 4
PAGES = 8
SEEDS = "seeds: [https://a.example/]\n"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_four_days_of_a_daily_job_with_two_schedulers(
    operations: Operations, local_web: Callable[..., LocalWeb], redis_url: str
) -> None:
    """In fast motion, across a change of the clock. One day, the scheduler that runs a crawl is killed in its midst."""
    operations.more["REDIS_URL"] = redis_url
    seed = random.randrange(10**6)
    dice = random.Random(seed)
    print(f"seed {seed}")
    site = "127.0.1.1"
    web = local_web(site)
    pages = generated_web(3, web, PAGES).reachable(web.url(site))
    bodies = {path: str(page) for path, page in web.sites[site].items()}

    def answer_after(seconds: float) -> None:
        for path, body in bodies.items():
            web.put(site, path, Reply(body, delay=seconds))

    store = operations.store
    values = {"name": "news", "cron": "30 6 * * *", "timezone": "Europe/Berlin", "spider": "broad"}
    store.apply([{**values, "seeds": [web.url(site)], "arguments": {"scope": "host"}}], BEGIN)
    operations.start("a")
    operations.start("b")
    dues = Schedule(values["cron"], values["timezone"]).between(BEGIN, BEGIN + timedelta(days=DAYS))
    bad_day, bad_page = dice.randrange(DAYS), dice.randrange(1, PAGES - 2)
    for day, due in enumerate(dues):
        before = len(web.hits)
        answer_after(1.0 if day == bad_day else 0.0)
        operations.move_to(due + timedelta(seconds=1))
        if day == bad_day:
            operations.until(lambda before=before: len(web.hits) > before + bad_page)
            operations.kill(operations.holder(store.iterations("news", 1)[0]))
            answer_after(0.0)
            operations.start("c")
            operations.until(lambda: "Scheduler " in (operations.folder / "c.log").read_text())
        operations.until_ended(store, day + 1)
        (one,) = store.iterations("news", 1)
        asked = Counter(hit.path for hit in web.log(site)[before:] if hit.path != "/robots.txt")
        summary = json.loads((Path(str(one.data_dir)) / "summary.json").read_text())
        assert one.processed == summary["pages"] == len(asked) == len(pages)
        assert one.crawled == sum(summary["responses"].values()) == asked.total()
        assert (one.found, one.queued, one.stuck) == (summary["seen_urls"], 0, 0)
    found = store.iterations("news")[::-1]
    assert [(one.number, one.due, one.reason) for one in found] == [
        (number, due, "finished") for number, due in enumerate(dues, 1)
    ]
    assert [f"{due:%d %H:%M}" for due in dues] == ["26 05:30", "27 05:30", "28 05:30", "29 04:30"]
    assert len({one.crawl for one in found}) == len({one.data_dir for one in found}) == DAYS
    assert [one.number for one in found if one.fence > 1] == [bad_day + 1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two jobs."""
    for name in ("news", "weekly"):
        (tmp_path / f"{name}.yaml").write_text(
            f"name: {name}\ncron: 0 6 * * *\nspider: broad\nstate: ON\n{SEEDS}"
        )
    return tmp_path


def test_operators_apply_switch_and_look_at_jobs(operations: Operations, folder: Path) -> None:
    empty = operations.jobs("list")
    assert (empty.stdout, empty.stderr) == (
        *("", "0 jobs. Write one into a file, and run: scrapy jobs apply FILE\n"),
    )
    assert (
        operations.jobs("apply", str(folder), "--dry-run").stdout
        == "news: would be new\nweekly: would be new\n"
    )
    assert operations.store.jobs() == []
    assert operations.jobs("apply", str(folder)).stdout == "news: new\nweekly: new\n"
    (folder / "news.yaml").write_text(
        "name: news\ncron: 0 7 * * *\ntimezone: Asia/Kolkata\nspider: broad\n"
        f"state: ON\nnotify: [mailto://a:b@c.example]\n{SEEDS}"
    )
    told = operations.jobs("apply", str(folder), "--dry-run").stdout
    assert told == "news: would change: cron, timezone, notify\nweekly: unchanged\n"
    operations.jobs("apply", str(folder))
    assert operations.jobs("pause", "weekly").stdout == "weekly is PAUSED. It was ON.\n"
    made = operations.jobs("run", "news").stdout
    assert made.startswith(
        "Iteration 1 of news is due now: a running `scrapy jobs run` starts it. Its crawl is news-20"
    )
    assert operations.jobs("off", "news").stdout == "news is OFF. It was ON.\n"
    assert operations.jobs("resume", "news").stdout == "news is ON. It was OFF.\n"
    heading, news, weekly = operations.jobs("list").stdout.splitlines()
    assert heading.split() == ["job", "state", "spider", "next", "latest", "iteration"]
    # in the time zones of the jobs
    assert re.fullmatch(r"news +ON +broad +20.* 07:00:00 IST  1 STOPPED \(the job was switched off\)", news)
    assert re.fullmatch(r"weekly +PAUSED +broad +does not fire +none yet", weekly)
    as_json = operations.jobs("list", "--json").stdout
    facts = [json.loads(line) for line in as_json.splitlines()]
    assert [one["state"] for one in facts] == ["ON", "PAUSED"]
    assert facts[0]["latest"]["state"] == "STOPPED" and facts[1]["next"] is None
    assert "mailto" not in as_json
    heading, history = operations.jobs("history", "news").stdout.splitlines()
    assert heading.split()[:5] == ["iteration", "due", "state", "started", "ended"]
    assert re.fullmatch(r" +1  20.* IST  STOPPED +20.* IST +the job was switched off", history)
    assert json.loads(operations.jobs("history", "news", "--json").stdout)["number"] == 1
    (folder / "weekly.yaml").unlink()
    told = operations.jobs("apply", str(folder), "--dry-run").stdout
    assert told == "news: unchanged\nweekly: PAUSED, but in no file; --prune deletes it\n"
    told = operations.jobs("apply", str(folder), "--prune").stdout
    assert told == "news: unchanged\nweekly: deleted, its history is kept\n"
    told = operations.jobs("delete", "news", "--history").stdout
    assert told == "news is deleted, with its history and what its crawls have stored.\n"
    assert operations.store.jobs() == operations.store.iterations() == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("spider: bread", "later.yaml:3: spider: there is no spider 'bread'"),
        (
            f"spider: broad\nsettings:\n  DOWNLOAD_DELAY: soon\n{SEEDS}",
            r"later.yaml:5: settings\.DOWNLOAD_DELAY: DOWNLOAD_DELAY must be",
        ),
        ("spider: broad", "later.yaml:1: seeds: missing: spider 'broad' has nothing to crawl without them"),
        ("spider: broad\ncrom: x", "later.yaml:4: crom: there is no such key"),
    ],
)
def test_a_wrong_job_in_a_folder_changes_nothing(
    operations: Operations, folder: Path, more: str, message: str
) -> None:
    (folder / "later.yaml").write_text(f"name: later\ncron: 0 6 * * *\n{more}\n")
    done = operations.jobs("apply", str(folder), status=1)
    assert done.stdout == ""
    assert re.fullmatch(rf"scrapy jobs: \S+/{message}.*\n", done.stderr)
    assert not (folder / "data" / "metadata.db").exists()


def test_an_unknown_job_and_wrong_words_are_told(operations: Operations) -> None:
    for words in (["run", "x"], ["history", "x"], ["off", "x"]):
        done = operations.jobs(*words, status=1)
        assert done.stderr == "scrapy jobs: there is no job 'x'; none was applied\n"
    for words, message in {
        (): "say what to do, such as scrapy jobs list",
        ("start",): "there is no scrapy jobs start",
        ("run", "x", "y"): "too many arguments for scrapy jobs run",
        ("list", "x"): "too many arguments for scrapy jobs list",
        ("pause",): "scrapy jobs pause needs the name of a job: `scrapy jobs list` lists them",
        ("apply",): "scrapy jobs apply needs a file with a job in YAML",
        ("list", "--limit", "0"): "--limit must be at least 1",
    }.items():
        stderr = operations.jobs(*words, status=2).stderr
        assert f"error: {message}" in stderr and "[options] apply FILE|FOLDER | list" in stderr


def test_the_command_runs_a_scheduler_until_a_signal(operations: Operations, tmp_path: Path) -> None:
    assert (
        "--workers must be at least 1"
        in scrapy("jobs", "run", "--workers", "0", *operations.settings, status=2).stderr
    )
    log = tmp_path / "scheduler.log"
    words = [sys.executable, "-m", "scrapy", "jobs", "run", *operations.settings, "--logfile", str(log)]
    process = operations.schedulers["real"] = subprocess.Popen(words, cwd=CHECKOUT, stdin=subprocess.DEVNULL)
    operations.until(lambda: log.exists() and "jobs are in sqlite" in log.read_text())
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
