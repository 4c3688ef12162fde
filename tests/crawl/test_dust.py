"""Sites with several URLs for a page: what changes nothing is learned, and the pages are fetched once."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import redis

from tests.crawls import Crawl, CrawlResult, scrapy, until
from tests.nameserver import Nameserver, Record
from tests.web import Hit, LocalWeb, Reply
from webcrawl.policies.dust import SiteDust

SITE = "127.0.1.1"
ARTICLES = 40
IN_USE = ("used", "tried")
RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]


def text_of(key: str) -> str:
    """A text of a page of its own."""
    words = random.Random(key)
    return " ".join("".join(words.choices("abcdefghiklmnoprstuv", k=6)) for _ in range(60))


class Shop:
    """Articles with a list of ten pages. Each page has a session of its own in all links, as hosts without cookies do.

    `parameter`: the session is in it; none if it is empty. `strict`: without a session the host redirects.
    """

    def __init__(self, parameter: str = "sid", *, strict: bool = False) -> None:
        self.parameter, self.strict = parameter, strict
        self.sessions = random.Random(1)

    def __call__(self, hit: Hit) -> Reply:
        split = urlsplit(hit.path)
        query = {name: values[0] for name, values in parse_qs(split.query).items()}
        session = f"{self.sessions.getrandbits(128):032x}"
        if self.strict and self.parameter not in query:
            mark = "&" if query else "?"
            return Reply(status=302, headers={"Location": f"{hit.path}{mark}{self.parameter}={session}"})
        if split.path == "/robots.txt":
            return Reply(status=404)
        page = int(query.get("page", "1"))
        if split.path == "/":
            links, text = [f"/list?page={n}" for n in range(1, 11)], "start"
        elif split.path == "/list":
            links = [f"/article/{n}" for n in range(ARTICLES) if n % 10 == page - 1] + ["/"]
            text = f"list {page}"
        else:
            number = int(split.path.rpartition("/")[2])
            links = [f"/article/{(number * step + 1) % ARTICLES}" for step in (1, 2, 3)] + [
                "/",
                "/list?page=1",
            ]
            text = split.path
        if self.parameter:
            links = [f"{link}{'&' if '?' in link else '?'}{self.parameter}={session}" for link in links]
        anchors = "".join(f'<a href="{link}">{n}</a>' for n, link in enumerate(links))
        return Reply(f"<title>{text}</title><p>{text_of(text)}</p>{anchors}<!-- {session} -->")


def told(command: str, *args: str, data_dir: Path) -> dict[str, Any]:
    done = scrapy(command, "--json", *args, "-s", f"DATA_DIR={data_dir}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def rule_in_engine(data_dir: Path, host: str, rule: str) -> str:
    """How the engine of a running crawl would have a rule used."""
    with redis.Redis(unix_socket_path=str(data_dir / "engine" / "valkey.sock")) as client:
        found = [client.hget(key, host) for key in client.scan_iter("*:dust")]
    return SiteDust.unpack(found[0]).states().get(rule, "") if found and found[0] else ""


def without_session(paths: list[str]) -> set[str]:
    return {re.sub(r"[?&]sid=[^&]*", "", path) for path in paths if path != "/robots.txt"}


@pytest.mark.parametrize("strict", [pytest.param(False, marks=pytest.mark.slow), True])
def test_sessions_are_dropped_and_the_crawl_ends(local_web: StartWeb, crawl: RunCrawl, strict: bool) -> None:
    web = local_web(SITE)
    web.sites[SITE]["*"] = Shop(strict=strict)
    result = crawl([web.url(SITE)], DUST=True, CRAWL_MAX_PAGES=1_000, DOWNLOAD_DELAY=0.002)
    assert result.summary["finish_reason"] == "finished", "each page has new links"
    everything = {
        "/",
        *(f"/list?page={n}" for n in range(1, 11)),
        *(f"/article/{n}" for n in range(ARTICLES)),
    }
    assert without_session(web.paths(SITE)) >= everything
    assert result.summary["rewritten"] > 100
    assert " by DUST rules" in result.stderr
    rules = told("host", web.host(SITE), data_dir=result.data_dir)["dust"]
    assert rules["/article/#?sid"]["state"] == "used"
    assert rules["/article/#?sid"]["other"] == 0
    assert not any(row["state"] != "not used" for rule, row in rules.items() if rule.endswith("?page"))


def article(key: str, links: list[str]) -> Reply:
    anchors = "".join(f'<a href="{link}">{n}</a>' for n, link in enumerate(links))
    return Reply(f"<title>{key}</title><p>{text_of(key)}</p>{anchors}")


def many_names(hit: Hit) -> Reply:
    """Pages with a parameter that changes nothing, index pages, lists that end, and pages behind a login."""
    split = urlsplit(hit.path)
    query = {name: values[0] for name, values in parse_qs(split.query).items()}
    number = int("".join(re.findall("[0-9]+", split.path)) or 0)
    if split.path == "/robots.txt":
        return Reply(status=404)
    if split.path == "/":
        lists = [f"/list/{n}?page=1" for n in range(12)]
        private = [f"/private/{n}?tab={tab}" for n in range(12) for tab in (1, 2, 3)]
        return article(
            "/", [f"/p/0?from={n}" for n in range(3)] + lists + private + ["/d/0/", "/d/0/index.html"]
        )
    if split.path.startswith("/private"):
        return Reply(f"<p>{text_of('Please log in')}</p>")
    if split.path.startswith("/list"):
        page = min(int(query.get("page", 1)), 3)
        beyond = [f"/list/{number}?page={n}" for n in range(2, 7)]
        return article(f"list {number} {page}", beyond)
    if split.path.startswith("/d/"):
        following = [f"/d/{number + 1}/", f"/d/{number + 1}/index.html"] if number < 30 else []
        return article(f"folder {number}", following)
    following = [f"/p/{number + 1}?from={n}{number}" for n in range(3)] + [f"/p/{number + 1}"]
    return article(f"page {number}", following if number < 40 else [])


def test_parameters_and_index_pages_are_learned_but_no_lists_and_logins(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    web.sites[SITE]["*"] = many_names
    result = crawl([web.url(SITE)], DUST=True, DOWNLOAD_DELAY=0.002)
    paths = web.paths(SITE)
    assert {path.partition("?")[0] for path in paths} >= {
        *(f"/p/{n}" for n in range(41)),
        *(f"/d/{n}/" for n in range(31)),
    }
    assert {f"/list/{n}?page={page}" for n in range(12) for page in range(1, 7)} <= set(paths)
    assert {f"/private/{n}?tab={tab}" for n in range(12) for tab in (1, 2, 3)} <= set(paths)
    assert sum(path.startswith("/p/") for path in paths) < 41 * 4 // 2
    assert sum(path.startswith("/d/") for path in paths) < 31 * 2 * 3 // 4
    rules = told("host", web.host(SITE), data_dir=result.data_dir)["dust"]
    used = {rule for rule, row in rules.items() if row["state"] != "not used"}
    assert used == {"/p/#?from", "/index.html"}


def test_two_names_of_a_host_are_learned(local_web: StartWeb, crawl: RunCrawl) -> None:
    names = ["shop.example", "www.shop.example"]
    web = local_web(*names)

    def page(hit: Hit) -> Reply:
        number = int(hit.path[1:] or 0)
        following = [f"{web.host(name)}/{number + 1}" for name in names] if number < 40 else []
        return Reply(status=404) if hit.path == "/robots.txt" else article(hit.path, following)

    for name in names:
        web.sites[name] = {"/robots.txt": Reply(status=404), **{f"/{n or ''}": page for n in range(41)}}
    with Nameserver(dict.fromkeys(names, [Record("A", "127.0.0.1")])) as nameserver:
        result = crawl([web.url(name) for name in names], DUST=True, DNS_SERVERS=nameserver.address)
    fetched = [path for path in web.paths(names[0]) if path != "/robots.txt"]
    assert sorted(fetched) == sorted(f"/{n or ''}" for n in range(41))
    assert len(web.paths(names[1])) < 30
    rules = told("host", web.host(names[1]), data_dir=result.data_dir)["dust"]
    assert rules["www."]["state"] == "used"


def test_rules_survive_a_kill_and_are_switched_off_and_on(
    local_web: StartWeb, crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    web.sites[SITE]["*"] = Shop()
    options = {"DUST": True, "DOWNLOAD_DELAY": 0.002, "CRAWL_MAX_PAGES": 1_000}
    running = Crawl.start(
        "broad",
        [web.url(SITE)],
        folder=tmp_path,
        data_dir=tmp_path / "data",
        ALLOWED_NETWORKS="127.0.0.0/8",
        **options,
    )
    data, host, rule = running.data_dir, web.host(SITE), "/article/#?sid"
    until(lambda: any(re.fullmatch("/article/[0-9]+", path) for path in web.paths(SITE)[100:]), running)
    until(lambda: rule_in_engine(data, host, rule) in IN_USE, running, look_every=0.02)
    running.kill()
    new = web.url(SITE, "/article/3?sid=0123456789")
    assert told("host", host, data_dir=data)["dust"][rule]["state"] in IN_USE
    before = len(web.hits)
    result = crawl([web.url(SITE)], **options)
    assert result.summary["finish_reason"] == "finished"
    assert len(web.hits) - before < 200, "it was learned again"
    assert told("checkurl", new, data_dir=data)["DUST"] == f"fetches {web.url(SITE, '/article/3')} instead"
    off = told("host", host, "--rule-off", "*?sid", data_dir=data)["dust"]
    assert off["*?sid"] == {"state": "off"}
    assert "DUST" not in told("checkurl", new, data_dir=data)
    told("host", host, "--rule-on", "*?sid", data_dir=data)
    assert "DUST" in told("checkurl", new, data_dir=data)
    wrong = scrapy("host", host, "--rule-off", "/a?b", "-s", f"DATA_DIR={data}", status=1)
    assert "'/a?b' is no DUST rule of" in wrong.stderr
    shown = scrapy("host", host, "-s", f"DATA_DIR={data}").stdout
    assert "DUST rule /article/#?sid (used): " in shown


def test_nothing_is_learned_if_it_is_off(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    web.sites[SITE]["*"] = many_names
    web.put(SITE, "/", article("/", ["/p/0?from=0"]))  # none of the lists, folders and logins
    result = crawl([web.url(SITE)], DUST=False)
    assert result.summary["rewritten"] == 0
    assert {f"/p/{n}" for n in range(1, 41)} <= set(web.paths(SITE))
    assert told("host", web.host(SITE), data_dir=result.data_dir)["dust"] == {}
