"""`webcrawl crawl URL ...`: a crawl in a folder without a project."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.console import OPTIONS, webcrawl
from tests.web import LocalWeb, Reply
from webcrawl.new import create

SITE, OTHER = "127.0.1.1", "127.0.1.2"
StartWeb = Callable[..., LocalWeb]


@pytest.fixture
def web(local_web: StartWeb) -> LocalWeb:
    web = local_web(SITE, OTHER)
    web.put(SITE, "/robots.txt", "User-agent: *\nDisallow: /private")
    links = "".join(f"<a href={path}>x</a>" for path in ("/a", "/old", "/gone", "/private", "/pixel"))
    web.put(SITE, "/", f"<title>Home</title><h1>Hello</h1><p>Some <b>bold</b> words.</p>{links}")
    web.put(SITE, "/a", f'<html lang=de><title>A</title><p>Text</p><a href="{web.url(OTHER)}">other</a>')
    web.put(SITE, "/old", Reply(status=301, headers={"Location": "/a?moved"}))
    web.put(SITE, "/pixel", Reply(b"GIF89a", headers={"Content-Type": "image/gif"}))
    web.put(SITE, "/private", "secret")
    web.put(OTHER, "/", "<title>Other</title>")
    return web


def lines(path: Path) -> dict[str, dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["url"]: row for row in rows}


def test_pages_have_their_text_and_markdown(web: LocalWeb, tmp_path: Path) -> None:
    home = web.url(SITE)
    done = webcrawl("crawl", home, "--scope", "host", "-o", "pages.jsonl", *OPTIONS, folder=tmp_path)
    pages = lines(tmp_path / "pages.jsonl")
    assert {url.removeprefix(home): row["status"] for url, row in pages.items()} == {
        **{"": 200, "a": 200, "a?moved": 200, "pixel": 200}
    }
    first = pages[home]
    assert (first["title"], first["mime_type"], first["duplicate_of"]) == ("Home", "text/html", None)
    assert first["text"].startswith("Hello\nSome bold words.")
    assert first["markdown"].startswith("# Hello\n\nSome **bold** words.")
    assert pages[f"{home}a"]["language"] == "de"
    assert pages[f"{home}pixel"]["text"] is None and pages[f"{home}pixel"]["markdown"] is None
    assert f"{home}private" not in [hit.path for hit in web.hits]
    assert "pages.jsonl: 4 items" in done.stderr
    assert "webcrawl page URL" in done.stderr and "scrapy" not in done.stderr
    summary = json.loads((tmp_path / "data" / "summary.json").read_text())
    assert summary["crawl"] == home.split("/")[2].replace(":", "-")


def test_crawls_of_several_sites_share_a_folder(web: LocalWeb, tmp_path: Path) -> None:
    for site in (SITE, OTHER):
        options = ("--max-pages", "1", "-d", "results", *OPTIONS)
        assert "1 from 1 host" in webcrawl("crawl", web.url(site), *options, folder=tmp_path).stderr
    assert not (tmp_path / "data").exists()
    crawl = web.url(SITE).split("/")[2].replace(":", "-")
    frontier = webcrawl("status", "--crawl", crawl, "--json", "-d", "results", folder=tmp_path).stdout
    assert json.loads(frontier)["crawl"] == crawl


def test_a_file_of_urls_and_a_name(web: LocalWeb, tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text(f"# two\n{web.url(SITE, '/a')}\n{web.url(OTHER)}\n")
    options = ("--scope", "path", "--crawl", "mine", "-o", "-", *OPTIONS)
    done = webcrawl("crawl", "@urls.txt", *options, folder=tmp_path)
    assert {web.url(SITE, "/a"), web.url(OTHER)} <= {
        json.loads(line)["url"] for line in done.stdout.splitlines()
    }
    assert json.loads((tmp_path / "data" / "summary.json").read_text())["crawl"] == "mine"


def test_other_formats_have_the_columns_of_pages(web: LocalWeb, tmp_path: Path) -> None:
    webcrawl("crawl", web.url(OTHER), "--scope", "path", "-o", "pages.csv", *OPTIONS, folder=tmp_path)
    head = (tmp_path / "pages.csv").read_text().splitlines()[0].split(",")
    assert "warc_file" in head and "markdown" not in head


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["file:///etc/hostname"], "'file:///etc/hostname' is not a URL of http, https, ftp"),
        (["https://"], "not a URL: 'https://'"),
        (["urls.txt"], "urls.txt is a file: write @urls.txt for the URLs in it, https://urls.txt for a host"),
        (["@none.txt"], "cannot read the seeds in none.txt: No such file or directory"),
        (["nobody"], "there is no spider 'nobody': `webcrawl list` shows the spiders"),
    ],
)
def test_what_is_no_url_gets_one_line(words: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("https://example.com/")
    error = webcrawl("crawl", *words, *OPTIONS, folder=tmp_path, code=2).stderr
    assert error.startswith(f"webcrawl crawl: {message}") and error.count("\n") == 1


def test_a_spider_runs_without_a_project(web: LocalWeb, tmp_path: Path) -> None:
    arguments = ("-a", f"seeds={web.url(OTHER)}", "-a", "scope=path")
    webcrawl("crawl", "broad", *arguments, *OPTIONS, folder=tmp_path)
    assert json.loads((tmp_path / "data" / "summary.json").read_text())["pages"] == 1


def test_several_workers_take_urls_too(web: LocalWeb, tmp_path: Path) -> None:
    options = ("--scope", "host", "-o", "pages.jsonl", "-d", "results", *OPTIONS)
    webcrawl("workers", "2", web.url(SITE), *options, folder=tmp_path)
    assert json.loads((tmp_path / "results" / "summary.json").read_text())["pages"] == 4
    pages = lines(tmp_path / "pages-0.jsonl") | lines(tmp_path / "pages-1.jsonl")
    assert pages[web.url(SITE)]["markdown"].startswith("# Hello")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of its own, with a spider whose name looks like a host."""
    folder = create(tmp_path / "shop")
    with (folder / "settings" / "base.py").open("a") as settings:
        settings.write('USER_AGENT = "shopbot/1.0"\n')
    (folder / "spiders" / "dotted.py").write_text(
        "from webcrawl import BroadSpider\n\nclass Dotted(BroadSpider):\n    name = 'shop.example'\n"
    )
    return folder


def test_in_a_project_its_settings_and_spiders_are_used(web: LocalWeb, project: Path) -> None:
    webcrawl("crawl", web.url(OTHER), "--scope", "path", *OPTIONS, folder=project)
    assert [hit.headers["User-Agent"] for hit in web.hits] == ["shopbot/1.0"] * 2
    arguments = ("-a", f"seeds={web.url(SITE)}", "--max-pages", "1", "-o", "heads.jsonl", *OPTIONS)
    webcrawl("crawl", "headlines", *arguments, folder=project)
    assert '"headline": "Hello"' in (project / "heads.jsonl").read_text()
    webcrawl("crawl", "shop.example", *arguments[:4], *OPTIONS, folder=project)
    names = {path.stem for path in (project / "data" / "summaries").iterdir()}
    assert names == {web.url(OTHER).split("/")[2].replace(":", "-"), "headlines", "shop.example"}
