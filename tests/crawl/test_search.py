"""`scrapy search --update`, `scrapy search` and `scrapy copies` after crawls of small webs."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as dataset
import pytest

from tests.crawls import NO_NAMES, CrawlResult, crawl_hosts, scrapy
from tests.documents import image, pdf
from tests.web import LocalWeb, Reply
from webcrawl.search.query import Filters
from webcrawl.search.schema import MEDIA
from webcrawl.search.searching import Search

SITE, OTHER = "127.0.1.1", "127.0.1.2"
FILLER = " ".join(f"filler{number}" for number in range(60))


def article(title: str, text: str, lang: str = "en") -> str:
    return f"<html lang={lang}><title>{title}</title><main><h1>{title}</h1><p>{text} {FILLER}</main>"


PAGES = {
    "/": "<a href=/storks>white birds on chimneys</a> <a href=/storks>White birds</a> <a href=/copy>x</a>"
    "<a href=/storch>x</a><a href=/secret>x</a><a href=/gone>x</a><a href=/doc>x</a><a href=/tokyo>x</a>"
    "<a href=/hostile>x</a><a href=/notes.txt>x</a><a href=/photos>x</a>",
    "/photos": "<title>Holidays</title><figure><img src=nest.png alt='A nest'><figcaption>In May</figcaption></figure>"
    "<a href=nest.png>large</a> <a href=nest.png>full size</a>",
    "/storks": article("Storks", "The stork builds its nest on chimneys. Nests weigh up to two tonnes."),
    "/copy": article("Storks", "The stork builds its nest on chimneys. Nests weigh up to two tonnes."),
    "/storch": article("Der Storch", "Störche bauen Häuser aus Zweigen", "de"),
    "/tokyo": article("塔", "東京タワーは東京都港区にある。", "ja"),
    "/hostile": article("Red \x1b[31m title", "A zebra \x1b]0;owned\x07 eats \u202egrass, says the zebra."),
    "/secret": "<meta name=robots content=noindex><p>storks are not to be found here",
}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalWeb, CrawlResult]]:
    with LocalWeb(SITE) as web:
        for path, markup in PAGES.items():
            late = 0.3 if path == "/copy" else 0.0
            web.put(SITE, path, Reply(markup, headers={"Content-Type": "text/html"}, delay=late))
        web.put(SITE, "/gone", Reply("<p>storks left", status=410, headers={"Content-Type": "text/html"}))
        web.put(SITE, "/doc", Reply(pdf("Text of a document"), headers={"Content-Type": "application/pdf"}))
        web.put(SITE, "/notes.txt", Reply("Notes on egrets", headers={"Content-Type": "text/plain"}))
        web.put(SITE, "/nest.png", Reply(image(), headers={"Content-Type": "image/png"}))
        folder = tmp_path_factory.mktemp("search")
        yield web, crawl_hosts([web.url(SITE, "/")], folder, TEXT="wet,parquet", LINKS=True)


def run(data_dir: Path, *words: str, code: int = 0) -> str:
    done = scrapy(*words, "-s", f"DATA_DIR={data_dir}", "-s", f"DNS_SERVERS={NO_NAMES}", status=code)
    assert "Traceback" not in done.stderr
    return done.stderr if code else done.stdout


def found(data_dir: Path, *words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(data_dir, "search", "--json", *words).splitlines()]


def hits(data_dir: Path, words: str, *kinds: str) -> list[tuple[str, float, str]]:
    """URL, score and snippet of each result, found in this process."""
    filters = Filters(kinds=kinds or ("page",))
    return [
        (hit.entry.url, hit.score, hit.snippet)
        for hit in Search(data_dir / "index").find(words, filters).hits
    ]


def paths(web: LocalWeb, lines: list[dict[str, Any]]) -> list[str]:
    return [line["url"].removeprefix(web.host(SITE)) for line in lines]


@pytest.fixture(scope="module")
def indexed(crawled: tuple[LocalWeb, CrawlResult]) -> tuple[LocalWeb, Path]:
    web, result = crawled
    assert result.returncode == 0, result.stderr
    assert (
        run(result.data_dir, "search", "--update")
        == "10 pages in the index: 10 added, 0 changed, 0 removed\n"
    )
    return web, result.data_dir


@pytest.mark.parametrize("source", ["wet", "parquet", "archive"])
def test_the_index_is_the_same_from_any_source(
    indexed: tuple[LocalWeb, Path], source: str, tmp_path: Path
) -> None:
    _, data_dir = indexed
    copied = tmp_path / "data"
    left_out = {"wet": ["texts"], "parquet": ["wet"], "archive": ["texts", "wet"]}[source]
    shutil.copytree(data_dir, copied, ignore=shutil.ignore_patterns("engine", "index", *left_out))
    figures = json.loads(run(copied, "search", "--update", "--json"))
    assert (figures["added"], figures["unread"], figures["problems"]) == (10, 0, [])
    for words in ("nest", "東京", "document", "chimneys", "egrets"):
        assert hits(copied, words) == hits(data_dir, words) != []
    assert [path for path in (copied / "index").rglob("*") if path.stat().st_mode & 0o077] == []


def test_a_damaged_file_of_texts_is_named_and_the_archive_read(
    indexed: tuple[LocalWeb, Path], tmp_path: Path
) -> None:
    web, data_dir = indexed
    copied = tmp_path / "data"
    shutil.copytree(data_dir, copied, ignore=shutil.ignore_patterns("engine", "index", "wet"))
    (path,) = (copied / "texts").iterdir()
    path.write_bytes(path.read_bytes()[:-9])
    figures = json.loads(run(copied, "search", "--update", "--json"))
    (problem,) = figures["problems"]
    assert problem.startswith(f"{path} cannot be read: ")
    assert len(hits(copied, "nests")) == 1


def test_an_index_is_not_deleted_if_it_cannot_be_made_anew(
    indexed: tuple[LocalWeb, Path], tmp_path: Path
) -> None:
    _, data_dir = indexed
    copied = tmp_path / "data"
    shutil.copytree(data_dir, copied, ignore=shutil.ignore_patterns("engine"))
    before = hits(copied, "nest")
    (path,) = (copied / "links").glob("*.parquet")
    path.write_bytes(b"PAR1")
    assert f"{path} cannot be read" in run(copied, "search", "--update", "--again", code=1)
    assert hits(copied, "nest") == before != []


def test_the_first_search_makes_the_index_and_later_ones_say_its_age(
    indexed: tuple[LocalWeb, Path], tmp_path: Path
) -> None:
    _, data_dir = indexed
    for command, words in (("search", ["nests"]), ("copies", [str(tmp_path / "essay.html")])):
        (tmp_path / "essay.html").write_text(PAGES["/storks"])
        options = ["--index", str(tmp_path / command), "-s", f"DATA_DIR={data_dir}"]
        first, second = (scrapy(command, *words, *options) for _ in range(2))
        assert first.stderr.startswith(f"Making the index of the stored pages in {tmp_path / command}, for")
        assert "Making" not in second.stderr
        assert first.stdout == second.stdout != ""
    again = scrapy("search", "nests", *options)
    assert (
        "The index is less than a minute old; `scrapy search --update` brings it up to date." in again.stderr
    )
    os.utime(tmp_path / "copies" / "updated", (0, time.time() - 3 * 86_400))
    assert "The index is about 3 days old" in scrapy("search", "nests", *options).stderr
    updated = scrapy("search", "nests", "--update", *options)
    assert "less than a minute old" in updated.stderr and updated.stdout == again.stdout


def test_searches_find_pages_by_text_title_and_anchor(indexed: tuple[LocalWeb, Path]) -> None:
    web, data_dir = indexed
    (stork,) = found(data_dir, "nests")
    assert {stork["url"], *stork["copies"]} == {web.url(SITE, "/storks"), web.url(SITE, "/copy")}
    assert (stork["title"], stork["language"], stork["mime_type"]) == ("Storks", "en", "text/html")
    assert [stork["snippet"][start:end] for start, end in stork["marks"]] == ["nest", "Nests"]
    assert paths(web, found(data_dir, "anchors:white")) == ["/storks"]
    assert run(data_dir, "search", "anchors:white").startswith(" 1. Storks\n    http://")
    without = scrapy("search", "-s", f"DATA_DIR={data_dir}", "--", "-title:storks nests")
    assert (without.returncode, "Storks" in without.stdout) == (0, False), without.stderr
    assert [url for url, _, _ in hits(data_dir, "haus")] == [web.url(SITE, "/storch")]
    assert paths(web, found(data_dir, "document", "--type", "application/pdf")) == ["/doc"]
    assert found(data_dir, "storks", "--until", "2020-01-01", "--host", SITE, "--language", "en") == []
    assert hits(data_dir, "left") == [], "error pages and pages that say noindex are not in the index"


def test_no_control_characters_of_pages_reach_the_terminal(indexed: tuple[LocalWeb, Path]) -> None:
    web, data_dir = indexed
    text = run(data_dir, "search", "zebra")
    assert text.startswith(" 1. Red \\u001b[31m title\n    http://") and "says the zebra" in text
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    raw = run(data_dir, "search", "--json", "zebra")
    assert raw.isascii() and raw.count("\n") == 1


def test_wrong_uses_are_one_sentence(indexed: tuple[LocalWeb, Path], tmp_path: Path) -> None:
    _, data_dir = indexed
    for code, message, *words in (
        (2, "a limit from 1 to 1,000", "search", "a", "--limit", "0"),
        (1, "is not a query", "search", "a AND"),
        (1, "--since: 'yesterday' is not a time", "search", "a", "--since", "yesterday"),
        (1, "'html' is not a MIME type", "search", "a", "--type", "html"),
        (2, "--again needs --update", "search", "a", "--again"),
        (1, "is not empty, and no index", "search", "--update", "--index", str(data_dir)),
    ):
        assert message in run(data_dir, *words, code=code)
    assert "nothing was stored yet" in run(tmp_path, "search", "--update", code=1)


def test_a_second_crawl_changes_and_removes_pages(
    local_web: Callable[..., LocalWeb], crawl: Callable[..., CrawlResult]
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<title>Home</title><a href=/a>a</a> <a href=/b>b</a> <a href=/c>c</a>")
    for name in "abc":
        web.put(SITE, f"/{name}", article(name.upper(), f"An otter swims. <a href=/c>holt {name}</a>"))
    stored = {"LINKS": True, "TEXT": "parquet"}
    result = crawl([web.url(SITE)], CRAWL_ID="one", NEAR_DUPLICATES="mark", **stored)
    run(result.data_dir, "search", "--update")
    assert {url for url, _, _ in hits(result.data_dir, "otters")} <= {
        web.url(SITE, f"/{name}") for name in "abc"
    }
    web.put(SITE, "/a", article("A", "A beaver swims."))
    web.put(SITE, "/b", Reply("<p>gone", status=410))
    result = crawl([web.url(SITE)], CRAWL_ID="two", NEAR_DUPLICATES="mark", **stored)
    figures = json.loads(run(result.data_dir, "search", "--update", "--json"))
    # /c has lost the texts of links on /a and /b
    assert (figures["added"], figures["changed"], figures["removed"]) == (0, 2, 1)
    assert paths(web, found(result.data_dir, "beaver")) == ["/a"]
    for table, expected in (("texts", ["/", "/a", "/c"]), ("links", ["/", "/", "/", "/c"])):
        output = result.data_dir.parent / table
        done = run(result.data_dir, "export", "--format", table, "-o", str(output))
        assert done.startswith(f"{len(expected)} rows in 1 file: ")
        rows = dataset.dataset(output, format="parquet", exclude_invalid_files=True).to_table().to_pylist()
        urls = sorted(row["from_url" if table == "links" else "url"] for row in rows)
        assert [url.removeprefix(web.host(SITE)) for url in urls] == expected
    assert run(result.data_dir, "links", "--in", "--host", web.url(SITE)).split()[0] == "4"
    wrong = run(result.data_dir, "export", "--format", "texts", "-o", str(output), "--status", "200", code=2)
    assert "has the current rows of all pages: leave out --status" in wrong
    assert paths(web, found(result.data_dir, "otter", "--crawl", "two")) == ["/c"]
    assert json.loads(run(result.data_dir, "search", "--update", "--json"))["planned"] == 0


def test_media_are_found_by_what_pages_say_of_them(indexed: tuple[LocalWeb, Path]) -> None:
    web, data_dir = indexed
    for words in ("nest", "may", "holidays", "anchors:full", "png"):
        assert [url for url, _, _ in hits(data_dir, words, *MEDIA)] == [web.url(SITE, "/nest.png")], words
    (line,) = found(data_dir, "nest", "--media", "--type", "image/*")
    assert line["snippet"].startswith("A nest In May") and line["details"]["width"] > 0
    assert f"{line['details']['width']} x {line['details']['height']}" in run(
        data_dir, "search", "nest", "--media"
    )


def test_copies_of_a_file_and_of_a_page_are_found(indexed: tuple[LocalWeb, Path], tmp_path: Path) -> None:
    web, data_dir = indexed
    storks = {web.url(SITE, "/storks"), web.url(SITE, "/copy")}
    file = tmp_path / "essay.html"
    file.write_text(f"<title>Mine</title><p>My words. {PAGES['/storks'].partition('<p>')[2]}")
    lines = [json.loads(line) for line in run(data_dir, "copies", str(file), "--json").splitlines()]
    assert {line["url"] for line in lines if line["share"] > 0.9} == storks
    assert "chimneys. Nests weigh" in lines[0]["passages"][0]["text"]
    (tmp_path / "essay.pdf").write_bytes(pdf("Text of a document"))
    text = run(data_dir, "copies", str(tmp_path / "essay.pdf"))
    assert text.startswith(f"100%  {web.url(SITE, '/doc')}\n      4 words: Text of a document\n")
    first, second = storks
    assert second in run(data_dir, "copies", first)
    for code, message, *words in (
        (1, "is neither a file nor a URL", "copies", str(tmp_path)),
        (1, "is neither a file nor a page in", "copies", web.url(SITE, "/secret")),
        (1, "/nest.png has no text", "copies", web.url(SITE, "/nest.png")),
        (2, "--least takes a share from 0 to 100", "copies", "--least", "0", str(file)),
        (1, "is not empty, and no index", "copies", str(file), "--index", str(tmp_path)),
    ):
        assert message in run(data_dir, *words, code=code)
    (tmp_path / "empty.txt").touch()
    assert "has no text" in run(data_dir, "copies", str(tmp_path / "empty.txt"), code=1)
