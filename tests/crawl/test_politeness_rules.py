"""Crawls with POLITENESS_RULES."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.crawls import Crawl, CrawlResult, until
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartCrawl = Callable[..., Crawl]
StartWeb = Callable[..., LocalWeb]

SITE, OTHER = "127.0.1.1", "127.0.1.2"


def put_pages(web: LocalWeb, label: str, number: int) -> str:
    for n in range(number):
        web.put(label, f"/page{n}", f"page {n}")
    return web.put(label, "/", "".join(f"<a href=/page{n}>{n}</a>" for n in range(number)))


def pages_of(web: LocalWeb, label: str) -> list[str]:
    return [path for path in web.paths(label) if path != "/robots.txt"]


def write(path: Path, rules: list[dict[str, Any]] | str) -> None:
    new = path.with_suffix(".new")
    new.write_text(rules if isinstance(rules, str) else json.dumps(rules))
    os.replace(new, path)


def test_two_workers_keep_the_rules_of_a_host(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER)
    seeds = [put_pages(web, label, 12) for label in (SITE, OTHER)]
    robots = "User-agent: rulebot\nDisallow: /page0\n\nUser-agent: usualbot\nDisallow: /page1\n"
    for label in (SITE, OTHER):
        web.put(label, "/robots.txt", Reply(robots, headers={"Content-Type": "text/plain"}))
    rule = {"match": SITE, "delay": 0.1, "max_pages": 5, "user_agent": "rulebot/1"}
    options = {"USER_AGENT": "usualbot/1", "HOST_MAX_PAGES": 9}
    crawl(seeds, workers=2, POLITENESS_RULES=json.dumps([rule]), **options)
    assert (len(pages_of(web, SITE)), len(pages_of(web, OTHER))) == (5, 9)
    assert web.min_gap(SITE) >= 0.1
    assert {hit.headers["User-Agent"] for hit in web.log(SITE)} == {"rulebot/1"}
    assert {hit.headers["User-Agent"] for hit in web.log(OTHER)} == {"usualbot/1"}
    assert "/page0" not in pages_of(web, SITE) and "/page1" in pages_of(web, SITE)
    assert "/page1" not in pages_of(web, OTHER) and "/page0" in pages_of(web, OTHER)


def test_the_target_of_a_redirect_gets_the_user_agent_of_its_host(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE, OTHER)
    seeds = [web.url(SITE), web.url(OTHER)]
    for label, other in ((SITE, OTHER), (OTHER, SITE)):
        web.put(label, "/moved", f"here at {label}")
        there = web.url(other, "/moved")
        web.put(label, "/", Reply("", status=302, headers={"Location": there}))
    rule = {"match": SITE, "user_agent": "rulebot/1"}
    crawl(seeds, POLITENESS_RULES=json.dumps([rule]), USER_AGENT="usualbot/1")
    assert sorted(web.paths(SITE)) == sorted(web.paths(OTHER)) == ["/", "/moved", "/robots.txt"]
    assert {hit.headers["User-Agent"] for hit in web.log(SITE)} == {"rulebot/1"}
    assert {hit.headers["User-Agent"] for hit in web.log(OTHER)} == {"usualbot/1"}


def test_a_rule_may_be_raised_and_removed_between_crawls(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    seed = put_pages(web, SITE, 12)
    numbers = []
    for rules in ([{"match": SITE, "max_pages": 3}], [{"match": SITE, "max_pages": 6}], []):
        crawl([seed], POLITENESS_RULES=json.dumps(rules), HOST_MAX_PAGES=2 if rules else 8)
        numbers.append(len(pages_of(web, SITE)))
    assert numbers == [3, 6, 8]


def test_a_changed_file_applies_to_open_hosts(
    local_web: StartWeb, start_crawl: StartCrawl, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    seed, path = put_pages(web, SITE, 30), tmp_path / "rules.json"
    write(path, [{"match": SITE, "delay": 3600}])
    running = start_crawl("broad", [seed], POLITENESS_RULES=f"@{path}")
    until(lambda: "/robots.txt" in web.paths(SITE), running)
    write(path, '[\n{"match": "127.0.1.1", "delay": "soon"}]')
    until(lambda: "entry 1 (line 2)" in running.stderr, running)
    assert pages_of(web, SITE) == []
    write(path, [{"match": SITE, "delay": 0, "max_pages": 7}])
    result = running.wait()
    assert len(pages_of(web, SITE)) == 7
    assert result.stderr.count("entry 1 (line 2)") == 1
    shown = run_crawl(
        web.host(SITE), command=("host", "--json"), data_dir=running.data_dir, POLITENESS_RULES=f"@{path}"
    )
    report = json.loads(shown.stdout)
    assert report["rule"] == f"{SITE}: delay 0.0, max_pages 7"
    assert (report["limits"]["ruled"], report["pages"]) == (7, 7)


def test_checkurl_shows_the_rule(run_crawl: RunCrawl) -> None:
    rules = json.dumps([{"match": ".example.org", "delay": 2}, {"match": "*.example.org", "connections": 3}])
    shown = run_crawl("http://www.example.org/", command=("checkurl", "--json"), POLITENESS_RULES=rules)
    expected = "*.example.org, .example.org: delay 2.0, connections 3"
    assert json.loads(shown.stdout)["POLITENESS_RULES"] == expected, shown.stderr


def test_a_wrong_rule_ends_the_command(run_crawl: RunCrawl) -> None:
    rules = json.dumps([{"match": "a.example", "delay": -1}])
    result = run_crawl("broad", ["http://127.0.0.1:9/"], POLITENESS_RULES=rules, status=2)
    assert result.returncode != 0
    assert 'POLITENESS_RULES, entry 1: "delay" must be a number of at least 0, not -1' in result.stderr
