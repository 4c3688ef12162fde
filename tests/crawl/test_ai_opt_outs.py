"""AI_OPT_OUTS: what sites keep from artificial intelligence is not fetched, or its text is left out."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from typing import Any

from tests.crawl.archive import records
from tests.crawls import CrawlResult, scrapy
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE, OTHER = "127.0.1.1", "127.0.1.2"
ROBOTS = "User-agent: GPTBot\nUser-agent: CCBot\nDisallow: /articles/\n\nUser-agent: *\nDisallow: /private"
ON = {"AI_OPT_OUTS": True, "TEXT": "wet"}


def put(web: LocalWeb, path: str, head: str = "", **headers: str) -> str:
    """Publishes a page whose text is its path; returns the path."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = (
        f"<html><head>{head}<title>t</title></head><p>The text of {path}</p><a href={path}/more>x</a></html>"
    )
    web.put(SITE, path, Reply(body, headers=named))
    return path


def rows_of(web: LocalWeb, result: CrawlResult) -> dict[str, dict[str, Any]]:
    return {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}


def remarks(row: dict[str, Any]) -> list[str]:
    details = row["details"]
    details = json.loads(details) if isinstance(details, str) else details
    return (details or {}).get("remarks") or []


def test_pages_that_say_no_keep_a_row_without_text(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    refusing = [
        put(web, "/meta", '<meta name="robots" content="noai, noimageai">'),
        put(web, "/header", X_Robots_Tag="noai"),
        put(web, "/tdm", TDM_Reservation="1"),
        put(web, "/tdm-meta", '<meta name="tdm-reservation" content="1">'),
        put(web, "/usage", Content_Usage="train-ai=n"),
    ]
    willing = [
        put(web, "/plain"),
        put(web, "/images-only", '<meta name="robots" content="noimageai">'),
        put(web, "/released", '<meta name="tdm-reservation" content="0">', TDM_Reservation="1"),
        put(web, "/for-another", X_Robots_Tag="otherbot: noai"),
    ]
    home = web.put(SITE, "/", "".join(f"<a href={path}>{path}</a>" for path in refusing + willing))
    result = crawl([home], **ON)
    rows = rows_of(web, result)
    assert {path for path in rows if remarks(rows[path]) == ["ai_opt_out"]} == {*refusing}
    assert {path for path in refusing + willing if rows[path]["warc_file"] is None} == {*refusing}
    assert {path for path in refusing + willing if rows[path]["title"] is None} == {*refusing}
    archived = {url.removeprefix(web.host(SITE)) for url in records(result.data_dir, "response")}
    assert archived.isdisjoint(refusing) and archived >= {*willing}
    (texts,) = (result.data_dir / "wet").rglob("*.gz")
    stored = re.findall(r"The text of (\S+)", gzip.decompress(texts.read_bytes()).decode())
    assert {*stored} == {*willing}
    assert {f"{path}/more" for path in refusing} <= {*web.paths(SITE)}, "links are followed"
    assert result.summary["remarks"] == {"ai_opt_out": 5}
    assert (result.summary["noindex"], result.summary["ai_denied"]) == (0, 0)
    assert "without text, because the site says no to use by AI: see AI_OPT_OUTS" in result.stderr


def test_urls_that_are_kept_from_crawlers_for_ai_are_not_fetched(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/robots.txt", ROBOTS)
    web.put(SITE, "/ai.txt", "User-Agent: *\nDisallow: /art/\nAllow: /")
    reserved = [{"location": "/paid/", "tdm-reservation": 1}]
    web.put(SITE, "/.well-known/tdmrep.json", json.dumps(reserved))
    paths = [put(web, path) for path in ("/articles/1", "/art/1", "/paid/1", "/private", "/free")]
    home = web.put(SITE, "/", "".join(f"<a href={path}>{path}</a>" for path in paths))
    result = crawl([home], **ON)
    assert {*web.paths(SITE)} & {*paths} == {"/free"}
    assert (result.summary["ai_denied"], result.summary["robots_denied"]) == (3, 1)
    rows = rows_of(web, result)
    assert rows["/art/1"]["error"] == "IgnoreRequest: the site disallows it to crawlers for AI"
    assert "1 by robots.txt, 3 by rules for AI (AI_OPT_OUTS), " in result.stderr
    data = ("-s", f"DATA_DIR={result.data_dir}", "-s", "AI_OPT_OUTS=True")
    shown = scrapy("checkurl", web.url(SITE, "/art/1"), *data).stdout
    assert "disallowed to crawlers for AI; decided by the rules for ai.txt" in shown


def test_without_the_setting_nothing_is_asked_and_nothing_left_out(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/robots.txt", ROBOTS)
    path = put(web, "/articles/1", X_Robots_Tag="noai")
    result = crawl([web.put(SITE, "/", f"<a href={path}>x</a>")])
    assert path in web.paths(SITE) and not {"/ai.txt", "/.well-known/tdmrep.json"} & {*web.paths(SITE)}
    assert rows_of(web, result)[path]["warc_file"] and result.summary["remarks"] == {}
    # the stored robots.txt has no files for AI, so the next run asks for them
    again = crawl([web.url(SITE)], **ON, SCHEDULER_FLUSH_ON_START=True, DATA_DIR=str(result.data_dir))
    assert {"/ai.txt", "/.well-known/tdmrep.json"} <= {*web.paths(SITE)}
    assert again.summary["ai_denied"] == 1


def test_the_setting_needs_robots_txt(crawl: RunCrawl) -> None:
    result = crawl(["http://127.0.0.1:1/"], AI_OPT_OUTS=True, ROBOTSTXT_OBEY=False, status=2)
    assert "AI_OPT_OUTS needs robots.txt: set ROBOTSTXT_OBEY = True" in result.stderr
