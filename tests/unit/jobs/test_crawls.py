"""The commands of an iteration's workers, and the settings that they have of their own."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from webcrawl.crawler.crawl_options import take_private
from webcrawl.errors import WrongJob
from webcrawl.jobs.children import Command
from webcrawl.jobs.crawls import JobCrawls, as_text
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.records import Iteration
from webcrawl.jobs.store import JobStore

NOW = datetime(2026, 3, 1, 6, 0, tzinfo=UTC)
CRAWL = "news-20260301T060000Z"


def crawls(folder: Path, *given: str, **settings: Any) -> JobCrawls:
    parts = {"SPIDER_MODULES": ["spiders"], "ADDONS": {"webcrawl.addon.WebcrawlAddon": 100}}
    return JobCrawls(Settings({**parts, "DATA_DIR": str(folder), **settings}), given)


def job(**more: Any) -> Definition:
    values = {"name": "news", "cron": "0 6 * * *", "spider": "broad", "seeds": ["https://a.example/"]}
    return Definition.of({**values, **more})


@pytest.fixture
def iteration(tmp_path: Path) -> Iteration:
    with JobStore(f"sqlite:///{tmp_path}/jobs.db") as store:
        store.apply([{"name": "news", "cron": "0 6 * * *", "spider": "broad"}], NOW)
        return replace(store.run("news", NOW), data_dir=str(tmp_path / "one"))


def options(command: Command) -> dict[str, Any]:
    """The settings and arguments that a worker has, as `scrapy crawl` reads them."""
    settings, opts = Settings(), argparse.Namespace(spargs={})
    with pytest.MonkeyPatch.context() as patch:
        for name, value in command.environment.items():
            patch.setenv(name, value)
        take_private(settings, opts)
        assert not set(os.environ) & set(command.environment), "child processes would have it"
    own = {name: settings[name] for name in settings if settings.getpriority(name) == 40}
    return {**own, **opts.spargs}


def test_a_worker_has_the_settings_of_its_job(tmp_path: Path, iteration: Iteration) -> None:
    project = crawls(tmp_path, "-s", "DOWNLOAD_DELAY=2", "-s", "USER_AGENT=ours")
    definition = job(
        arguments={"scope": "host"},
        settings={"DOWNLOAD_DELAY": 1.5, "ROBOTSTXT_OBEY": True, "ALLOWED_NETWORKS": ["10.0.0.0/8"]},
        notify=["mailto://user:secret@mail.example"],
    )
    (command,) = project.commands(definition, iteration, tmp_path / "seeds.txt")
    assert command.words[2:] == ["scrapy", "crawl", "broad", "--stop-at-eof", "-s", f"CRAWL_ID={CRAWL}"]
    assert options(command) == {
        "DOWNLOAD_DELAY": 1.5,
        "USER_AGENT": "ours",
        "scope": "host",
        "seeds": f"@{tmp_path}/seeds.txt",
        "PROGRESS": "off",
        "ROBOTSTXT_OBEY": True,
        "ALLOWED_NETWORKS": ["10.0.0.0/8"],
        "CRAWL_ID": CRAWL,
        "NOTIFY": ["mailto://user:secret@mail.example"],
        "DATA_DIR": str(tmp_path / "one"),
    }


def test_each_worker_has_files_of_its_own(tmp_path: Path, iteration: Iteration) -> None:
    definition = job(workers=2, settings={"FEEDS": {"items.jsonl": {"format": "jsonl"}}})
    commands = crawls(tmp_path).commands(definition, iteration, None)
    feeds = [options(command)["FEEDS"] for command in commands]
    assert [name in feed for name, feed in zip(("items-0.jsonl", "items-1.jsonl"), feeds, strict=True)] == [
        True,
        True,
    ]


def test_pages_of_an_iteration_have_a_folder_of_their_own(tmp_path: Path, iteration: Iteration) -> None:
    project = crawls(tmp_path, STORE_URI="s3://bucket/pages/")
    assert dict(project.of_iteration(job(), iteration))["STORE_URI"] == f"s3://bucket/pages/{CRAWL}"
    own = job(settings={"STORE_URI": "s3://other"})
    assert dict(project.of_iteration(own, iteration))["STORE_URI"] == f"s3://other/{CRAWL}"
    on_a_node = replace(iteration, data_dir=None)
    assert dict(crawls(tmp_path).of_iteration(job(), on_a_node)) == {"CRAWL_ID": CRAWL}


def test_the_folder_of_an_iteration_is_below_that_of_its_job(tmp_path: Path, iteration: Iteration) -> None:
    assert crawls(tmp_path).folder(iteration) == tmp_path / "jobs/news/20260301T060000Z"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"spider": "bread"}, "spider: there is no spider 'bread'"),
        ({"settings": {"DOWNLOAD_DELAY": "soon"}}, r"settings\.DOWNLOAD_DELAY: DOWNLOAD_DELAY must be"),
        ({"settings": {"CRAWL_MAX_PAGE": 5}}, r"settings\.CRAWL_MAX_PAGE: .* did you mean CRAWL_MAX_PAGES"),
        ({"arguments": {"depth": 1, "scope": "hosts"}}, r"arguments\.scope: scope 'hosts': must be one of"),
        ({"arguments": {"scop": "host"}}, r"arguments\.scop: .*did you mean 'scope'\?"),
        ({"seeds": None}, "seeds: missing: spider 'broad' has nothing to crawl without them"),
        ({"spider": "sitemap", "seeds": None}, "seeds: missing: spider 'sitemap'"),
        ({"seeds": None, "arguments": {"seeds": " "}}, r"arguments\.seeds: there is no URL"),
        (
            {"settings": {"DOWNLOAD_DELAY": 1, "FEEDS": "items.jsonl"}},
            r"settings\.FEEDS: has a value that Scrapy cannot read",
        ),
        ({"settings": {"EXTENSIONS": [1]}}, r"settings\.EXTENSIONS: has a value that Scrapy cannot read"),
        ({"settings": {"NOTIFY": ["slak://secret"]}}, r"settings\.NOTIFY: .*Apprise cannot use it"),
        ({"checkpoints": {"to": "gopher://a"}}, r"checkpoints\.to: to must begin with one of file://"),
        ({"checkpoints": {"to": "s3://"}}, r"checkpoints\.to: to must be"),
        ({"workers": 2, "settings": {"SEEN_SET": "bloom"}}, "workers: SEEN_SET"),
        (
            {"checkpoints": {"to": "x"}, "settings": {"SEEN_SET": "bloom"}},
            "checkpoints: a crawl with SEEN_SET",
        ),
        ({"nodes": ["http://localhost:6800"]}, "nodes: .* set REDIS_URL"),
        ({"notify": ["json://127.0.0.1", "slak://secret"]}, r"notify: .*entry 2 .*Apprise cannot use it"),
    ],
)
def test_a_job_that_could_not_run_is_refused(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    with pytest.raises(WrongJob, match=message):
        crawls(tmp_path).check(job(**more))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"ALLOWED_NETWORKS": ["10.0.0.0/8", "192.168.0.0/16"]}, "10.0.0.0/8,192.168.0.0/16"),
        ({"POLITENESS_RULES": [{"match": "a.example", "delay": 5}]}, '[{"match": "a.example", "delay": 5}]'),
        ({"URL_DENY": ["a", "b"]}, "a,b"),
        ({"URL_DENY": ["a,b", "c"]}, '["a,b", "c"]'),
    ],
)
def test_settings_are_text_for_nodes(tmp_path: Path, settings: dict[str, Any], text: str) -> None:
    project = crawls(tmp_path, REDIS_URL="redis://localhost")
    definition = job(settings=settings, nodes=["http://localhost:6800"])
    project.check(definition)
    (value,) = settings.values()
    assert as_text(value) == text
