"""Links in pages of legacy encodings are asked, checked and mirrored as a browser asks them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import duckdb
import pytest

from tests.crawl.reparsing import forget_reading, reparse
from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply

SITE, OTHER = "127.0.1.1", "127.0.1.2"
StartWeb = Callable[..., LocalWeb]
RunCrawl = Callable[..., CrawlResult]
# label, name of a folder, words that are a path and a query
PAGES = [
    ("gbk", "你好€", "%C4%E3%BA%C3%80"),
    ("big5", "繁體", "%C1c%C5%E9"),
    ("Shift_JIS", "表示①", "%95%5C%8E%A6%87@"),
    ("EUC-JP", "日本①", "%C6%FC%CB%DC%AD%A1"),
    ("EUC-KR", "한글똠", "%C7%D1%B1%DB%8Cc"),
    ("windows-1251", "Привет", "%CF%F0%E8%E2%E5%F2"),
    ("windows-1252", "é你", "%E9%26%2320320%3B"),
    ("iso-8859-2", "łódź", "%B3%F3d%BC"),
    ("utf-8", "é你", "%C3%A9%E4%BD%A0"),
]


def answered(charset: str, words: str, query: str) -> str:
    """The path to which a browser asks for the link in `home_of`."""
    return f"/{charset}/{quote(words)}?q={query}"


def home_of(charset: str, words: str) -> Reply:
    head = f"<title>{charset}</title><link rel=stylesheet href='/{charset}/{words}?style={words}'>"
    link = f"<a href='/{charset}/{words}?q={words}#{words}'>words</a><img src='/{charset}.png?q={words}'>"
    markup = f"<html><head>{head}</head><body>{link}</body></html>"
    codec = {"gbk": "gb18030", "Shift_JIS": "cp932", "EUC-KR": "cp949"}.get(charset, charset)
    body = markup.replace("①", "&#9312;").replace("€", "&euro;").encode(codec, "xmlcharrefreplace")
    return Reply(body, headers={"Content-Type": f"text/html; charset={charset}"})


def links_to_pages() -> str:
    odd = "<a href='/a|b?b=1|2&a=\\{}'>escaped by Scrapy alone</a>"
    return odd + "".join(f"<a href=/{charset}/>x</a>" for charset, _, _ in PAGES)


@pytest.fixture
def web(local_web: StartWeb) -> LocalWeb:
    web = local_web(SITE, OTHER)
    web.put(SITE, "/", links_to_pages())
    web.put(SITE, "/a%7Cb?b=1%7C2&a=%5C%7B%7D", "<title>odd</title>odd")
    for charset, words, query in PAGES:
        web.put(SITE, f"/{charset}/", home_of(charset, words))
        web.put(SITE, answered(charset, words, query), f"<title>of {charset}</title><p id='{words}'>x")
        style = answered(charset, words, query).replace("?q=", "?style=")
        web.put(SITE, style, Reply("p {}", headers={"Content-Type": "text/css"}))
        image = Reply(b"\x89PNG\r\n\x1a\n", headers={"Content-Type": "image/png"})
        web.put(SITE, f"/{charset}.png?q={query}", image)
    return web


OPTIONS = {"ALLOWED_NETWORKS": "127.0.0.0/8", "FRONTIER_RETRY_DELAY": 0, "POLITENESS_BACKOFF": 0}


def test_links_are_followed_and_stored_as_they_were_asked(web: LocalWeb, run_crawl: RunCrawl) -> None:
    result = run_crawl("broad", [web.url(SITE)], **OPTIONS, LINKS=True)
    wanted = {answered(*page) for page in PAGES}
    assert wanted <= set(web.paths(SITE))
    assert {hit.status for hit in web.log(SITE) if hit.path != "/robots.txt"} == {200}
    titles = {row["url"]: row["title"] for row in result.rows()}
    for charset, words, query in PAGES:
        assert titles[web.url(SITE, answered(charset, words, query))] == f"of {charset}"
    stored = links(result.data_dir)
    assert {web.url(SITE, path) for path in wanted} <= {target for _, target in stored}
    # the same links are read from the archive
    asked, charsets = len(web.paths(SITE)), {row["url"]: row["charset"] for row in result.rows()}
    forget_reading(result.data_dir)
    reparse(result.data_dir, "-s", "LINKS=True")
    assert links(result.data_dir) == stored and len(web.paths(SITE)) == asked
    assert {row["url"]: row["charset"] for row in result.rows()} == charsets


def links(data_dir: Path) -> set[tuple[str, str]]:
    return set(duckdb.sql(f"SELECT from_url, to_url FROM '{data_dir}/links/*.parquet'").fetchall())


def test_linkcheck_calls_working_links_good(web: LocalWeb, run_crawl: RunCrawl) -> None:
    moved = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: /\xe4\xbd\xa0?q=\xc4\xe3\r\n\r\n"
    web.put(SITE, "/", f"{links_to_pages()}<a href={web.host(OTHER)}/moved>1</a><a href=/moved>2</a>")
    for site in (SITE, OTHER):
        web.put(site, "/moved", Reply(raw=moved))
        web.put(site, "/%E4%BD%A0?q=%C4%E3", "the target")
    result = run_crawl("linkcheck", [web.url(SITE)], **OPTIONS)
    assert "/%E4%BD%A0?q=%C4%E3" in web.paths(SITE) and "/%E4%BD%A0?q=%C4%E3" in web.paths(OTHER)
    report = (result.data_dir / "linkcheck.jsonl").read_text()
    assert [json.loads(line) for line in report.splitlines()] == []
    assert "all are good" in result.stdout


def test_a_mirror_has_the_files_of_the_links(web: LocalWeb, run_crawl: RunCrawl, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    run_crawl("mirror", [web.url(SITE)], arguments={"to": folder}, **OPTIONS)
    texts = [file.read_text("utf-8-sig") for file in folder.rglob("*.html")]
    homes = [text for text in texts if "words</a>" in text]
    assert len(homes) == len(PAGES)
    assert not [text for text in texts if web.host(SITE) in text], "a link leads to the site"
    assert len(list(folder.rglob("*.png*"))) == len(PAGES)
