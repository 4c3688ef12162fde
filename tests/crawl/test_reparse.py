"""`scrapy reparse`: archived pages go through spider and pipelines again, without a request."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType

from tests.crawl.conftest import Project
from tests.crawl.reparsing import differences, execute, forget_reading, reparse, rows, summary
from tests.crawls import CrawlResult, items_of
from tests.documents import mixed
from tests.web import LocalWeb, Reply
from webcrawl.demo import demo_pages

SITE = "127.0.1.1"
StartWeb = Callable[..., LocalWeb]
RunCrawl = Callable[..., CrawlResult]
OF_THE_FETCH = {
    *("fetched_at", "first_fetched_at", "tried_at", "changed_at", "latency", "attempts", "queued_at"),
    *("warc_file", "warc_offset", "warc_length", "importance"),
}
PROSE = demo_pages(0, ["http://a", "http://b", "http://c"])["/article/1.html"].body.decode()
LINKS = "from_url, place, to_url, text, rel, element, block, nofollow, depth, crawl, epoch_us(time)"
TEXTS = "url, title, language, mime_type, digest, warc_file, warc_offset, status, epoch_us(fetched_at), text"


def stored_links(data_dir: Path) -> list[tuple[Any, ...]]:
    found = duckdb.sql(f"SELECT {LINKS} FROM '{data_dir}/links/*.parquet' ORDER BY ALL")
    return found.fetchall()


def stored_texts(data_dir: Path) -> list[tuple[Any, ...]]:
    """The rows of the tables; the last record of each page in the WET files has the same text."""
    found = duckdb.sql(f"SELECT {TEXTS} FROM '{data_dir}/texts/*.parquet' ORDER BY ALL").fetchall()
    last: dict[str, str] = {}
    for path in sorted((data_dir / "wet").glob("*.warc.wet.gz")):
        with path.open("rb") as file:
            for record in ArchiveIterator(file, record_types=WarcRecordType.conversion):
                last[record.headers["WARC-Target-URI"]] = record.reader.read().decode()
    assert last == {row[0]: row[-1] for row in found if row[7] == 200}, "WET has successful pages alone"
    return found


def old_rows(data_dir: Path) -> set[str]:
    """The pages with links or texts as the crawl stored them."""
    found = duckdb.sql(
        f"SELECT from_url FROM '{data_dir}/links/*.parquet' WHERE read_at IS NULL "
        f"UNION SELECT url FROM '{data_dir}/texts/*.parquet' WHERE read_at IS NULL"
    )
    return {url for (url,) in found.fetchall()}


def put_mixed_web(web: LocalWeb) -> None:
    good, cut = mixed()
    links = []

    def put(
        path: str, body: bytes | str, mime_type: str = "text/html", status: int = 200, **headers: str
    ) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        web.put(SITE, path, Reply(body, status, {"Content-Type": mime_type, **named}))
        links.append(path)

    for name, (mime_type, body) in (good | cut).items():
        put(f"/{name}", body, mime_type)
    put("/article", PROSE)
    put("/copy", PROSE)
    put("/near", PROSE.replace("<body>", "<body class=print>"))
    put("/pdf-copy", good["pdf-0"][1], "application/pdf")
    put("/pdf-as-text", good["pdf-0"][1], "text/plain; charset=latin-1", X_Content_Type_Options="nosniff")
    put("/pdf-nofollow", good["pdf-0"][1], "application/pdf", X_Robots_Tag="nofollow")
    put("/moved", "", status=301, Location="/article")
    put("/nowhere", "<title>nowhere</title>", status=302, Location="http://")
    put("/gone", "<title>gone</title>", status=404)
    put("/secret", "<meta name=robots content=noarchive><title>secret</title>")
    put("/zipped", gzip.compress(PROSE.replace("page", "leaf").encode()), Content_Encoding="gzip")
    put("/half", gzip.compress(os.urandom(4000).hex().encode())[:2000], Content_Encoding="gzip")
    put("/plain", b"not gzip at all", Content_Encoding="gzip")
    put("/latin", "<title>caf\xe9</title>".encode("latin-1"), "text/html; charset=latin-1")
    put("/language", "<title>x</title>y", Content_Language="fr")
    put("/long", gzip.compress(b"<title>long</title>" + b"word " * 30_000), Content_Encoding="gzip")
    put("/empty", "")
    web.put(SITE, "/", "".join(f'<a href="{path}">{path}</a>' for path in links))


def put_demo(web: LocalWeb) -> None:
    for path, answer in demo_pages(0, [web.host(SITE)] * 3).items():
        headers = {"Content-Type": answer.mime_type, **answer.headers}
        web.put(SITE, path, Reply(answer.body, answer.status, headers))


@pytest.mark.parametrize(
    ("put", "least"),
    [
        pytest.param(put_mixed_web, 70, id="mixed"),
        pytest.param(put_demo, 20, id="demo", marks=pytest.mark.slow),
    ],
)
def test_rows_are_those_of_the_crawl(
    local_web: StartWeb, crawl: RunCrawl, tmp_path: Path, put: Callable[[LocalWeb], None], least: int
) -> None:
    web = local_web(SITE)
    put(web)
    tables = {"LINKS": "True", "TEXT": "wet,parquet"}
    options = {"DOCUMENT_MAXSIZE": '{"text/html": 100000}', "timeout": 60, **tables}
    result = crawl([web.url(SITE)], FEEDS=json.dumps({str(tmp_path / "crawled.jsonl"): {}}), **options)
    before, requests = rows(result.data_dir), len(web.hits)
    links, texts = stored_links(result.data_dir), stored_texts(result.data_dir)
    assert len(before) > least, result.stderr
    assert {row["duplicate_kind"] for row in before.values()} == {None, "exact", "near"}
    forget_reading(result.data_dir)
    assert differences(before, rows(result.data_dir))
    limit = ("-s", "DOCUMENT_MAXSIZE=" + options["DOCUMENT_MAXSIZE"])
    limit += tuple(word for name, value in tables.items() for word in ("-s", f"{name}={value}"))
    told = summary(result.data_dir, *limit, "--processes", "2", "-O", str(tmp_path / "items.jsonl"))
    assert differences(before, rows(result.data_dir)) == []
    assert stored_links(result.data_dir) == links and len({link[0] for link in links}) > 10
    assert stored_texts(result.data_dir) == texts and len(texts) > 10
    assert not old_rows(result.data_dir) & {url for url, row in before.items() if row["warc_file"]}
    archived = [row for row in before.values() if row["warc_file"]]
    assert (told["pages"], told["rows"], told["failed"], told["left"]) == (len(archived), len(archived), 0, 0)
    assert told["not_archived"] + told["no_response"] == len(before) - len(archived) == 1
    assert told["counts"]["links"] > 0
    assert len(web.hits) == requests, "a request was sent"
    items = [*items_of(tmp_path / "items-0.jsonl"), *items_of(tmp_path / "items-1.jsonl")]
    found = {item["url"]: item for item in items}
    crawled = {item["url"]: item for item in items_of(tmp_path / "crawled.jsonl") if item["warc_file"]}
    near = {url for url, row in before.items() if row["duplicate_kind"] == "near"}
    assert len(items) == len(found) == len(archived)
    # the importance of an item is that of its time, that of a row has been computed at the end
    changed = differences(crawled, found, ["importance"])
    assert [one for one in changed if one[0] not in near] == []
    # a finished one ends at once
    same = reparse(result.data_dir, *limit, "--processes", "2", "-O", str(tmp_path / "items.jsonl"))
    assert ("Nothing was read" in same.stderr, "Finished at" in same.stdout) == (True, True)


CHANGED = '''
from webcrawl.documents.page import Page


class ShortTextPipeline:
    """Another main text: the first words of a page."""

    def process_item(self, item):
        if isinstance(item, Page) and item.text and item.text[0].isdigit():
            item.main_text = " ".join(item.text.split()[:int(item.text.split()[0])])
        return item
'''


def test_changed_texts_are_marked_like_those_of_a_fresh_crawl(
    local_web: StartWeb, project: Project, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    """Before, only the first words count; a page begins with their number."""
    web = local_web(SITE)
    words = re.sub(r"<[^>]*>", " ", PROSE).split()
    texts = {
        "/a": ["40", *words[:300]],
        "/b": ["40", *words[:60], *words[300:]],
        "/c": ["300", *words[100:400]],
        "/d": ["300", *words[:60], *words[300:]],
        "/e": ["30", *words[200:], "e"],
        "/f": ["300", *words[200:], "f"],
        "/g": ["300", *words[:300], "g"],
    }
    for path, text in texts.items():
        web.put(SITE, path, f"<body>{' '.join(text)}</body>")
    web.put(SITE, "/", "".join(f"<a href={path}>x</a>" for path in texts))
    (project.folder / "pipelines" / "short_text.py").write_text(CHANGED)
    shared = {"project": project.folder, "SOFT_404": False}

    def crawled(name: str, **options: Any) -> dict[str, Any]:
        arguments = {"scope": "host"}
        result = run_crawl(
            "broad", [web.url(SITE)], data_dir=tmp_path / name, arguments=arguments, **shared, **options
        )
        return rows(result.data_dir)

    fresh = crawled("fresh")
    old = crawled("old", ITEM_PIPELINES='{"pipelines.short_text.ShortTextPipeline": 250}')
    changed = differences(old, fresh, OF_THE_FETCH)
    assert {name for _, name, *_ in changed} >= {"simhash", "duplicate_of", "duplicate_kind"}
    told = summary(tmp_path / "old", cwd=project.folder)
    assert differences(rows(tmp_path / "old"), fresh, OF_THE_FETCH) == []
    assert told["texts_changed"] > 0
    assert told["marks_changed"] > 0


def test_a_new_pipeline_reads_archived_pages(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<a href=/a.djvu>a</a> <a href=/scan>b</a> <a href=/x>x</a>")
    for path, kind in (("/a.djvu", b"DJVU"), ("/scan", b"DJVM"), ("/x", b"none")):
        body = b"AT&TFORM1234" + kind
        web.put(SITE, path, Reply(body, headers={"Content-Type": "application/octet-stream"}))
    result = crawl([web.url(SITE)])
    before = rows(result.data_dir)
    pipelines = ("-s", 'ITEM_PIPELINES={"tests.crawl.djvu.DjvuPipeline": 230}', "--pipeline", "DjvuPipeline")
    dry = json.loads(reparse(result.data_dir, *pipelines, "--dry-run", "--json").stdout)
    assert dry == {"pages": 3, "not_archived": 0, "no_response": 0}
    told = summary(result.data_dir, *pipelines)
    after = rows(result.data_dir)
    titles = {url.rpartition("/")[2]: (row["mime_type"], row["title"]) for url, row in after.items()}
    djvu = "image/vnd.djvu"
    assert (told["pages"], told["rows"]) == (3, 3)
    assert titles["a.djvu"] == (djvu, "DJVU")
    assert titles["scan"] == (djvu, "DJVM")
    assert titles["x"] == ("application/octet-stream", None)
    assert {name for _, name, *_ in differences(before, after)} == {"mime_type", "title"}


def test_a_finished_reparse_is_not_that_with_other_settings(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    body = b"AT&TFORM1234DJVU"
    web.put(SITE, "/a.djvu", Reply(body, headers={"Content-Type": "application/octet-stream"}))
    data_dir = crawl([web.url(SITE, "/a.djvu")]).data_dir
    reparse(data_dir)
    assert "Nothing was read" in reparse(data_dir, "-s", "CONCURRENT_ITEMS=1").stderr
    pipelines = ("-s", 'ITEM_PIPELINES={"tests.crawl.djvu.DjvuPipeline": 230}')
    assert "Nothing was read" not in reparse(data_dir, *pipelines).stderr
    assert [row["title"] for row in rows(data_dir).values()] == ["DJVU"]
    tables = ("-s", "TEXT=parquet", "-s", "LINKS=True")
    for options in (tables, (*pipelines, "-s", "MY_OWN=1"), (*pipelines, "-s", "MY_OWN=2")):
        assert "Nothing was read" not in reparse(data_dir, *options).stderr, options
    assert "Nothing was read" in reparse(data_dir, *pipelines, "-s", "MY_OWN=2").stderr
    assert len(list((data_dir / "reparse").glob("????????????.db"))) == 1, "plans of finished ones stay"


def test_a_damaged_record_is_told_and_does_not_stop_the_rest(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    for path in ("/a", "/b", "/c"):
        web.put(SITE, path, f"<title>{path}</title>{path}")
    web.put(SITE, "/", "<a href=/a>a</a> <a href=/b>b</a> <a href=/c>c</a>")
    result = crawl([web.url(SITE)])
    before = rows(result.data_dir)
    damaged, misplaced = before[web.url(SITE, "/a")], before[web.url(SITE, "/b")]
    with (result.data_dir / "warc" / damaged["warc_file"]).open("r+b") as file:
        file.seek(damaged["warc_offset"] + damaged["warc_length"] // 2)
        file.write(b"\0" * 20)
    other = before[web.url(SITE, "/c")]["warc_offset"]
    execute(result.data_dir, "UPDATE pages SET warc_offset = ? WHERE url = ?", other, misplaced["url"])
    told = summary(result.data_dir)
    assert (told["pages"], told["rows"], told["failed"], told["left"]) == (4, 2, 2, 0)
    assert damaged["warc_file"] in told["failures"][damaged["url"]]
    assert f"the record is that of {web.url(SITE, '/c')}" in told["failures"][misplaced["url"]]
    assert {name for _, name, *_ in differences(before, rows(result.data_dir))} == {"warc_offset"}
    shown = reparse(result.data_dir).stdout
    assert "2 responses could not be read:" in shown


def test_wrong_options_are_refused_with_one_line(
    local_web: StartWeb, crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<title>home</title>")
    data_dir = crawl([web.url(SITE)]).data_dir

    def refusal(*words: str, code: int = 2) -> str:
        told = reparse(data_dir, *words, code=code).stderr
        assert len(told.splitlines()) == 1, told
        return told

    assert 'near "nonsense": syntax error' in refusal("--where", "some nonsense")
    assert "no such column: colour" in refusal("--where", "colour = 'red'")
    assert "'html' is not a MIME type" in refusal("--mime-type", "html")
    assert "'soon' is not a time" in refusal("--since", "soon")
    assert "'Nothing' is not an item pipeline of this crawl: " in refusal("--pipeline", "Nothing")
    assert "choose its pages by --mime-type" in refusal("--pipeline", "MediaPipeline")
    assert "FRAMES_STITCHED" in refusal("-s", "FRAMES_STITCHED=True")
    assert "has no page of crawl 'other', but of broad" in refusal("-s", "CRAWL_ID=other")
    assert "nothing was stored yet" in reparse(tmp_path / "none", code=1).stderr
    dry = ("--dry-run", "--json")
    chosen = {
        ("--mime-type", "text/*"): 1,
        ("--mime-type", "image/*"): 0,
        ("--pipeline", "HtmlPipeline"): 1,
        ("--pipeline", "webcrawl.pipelines.pdf.PdfPipeline"): 0,
        ("--since", "2020-01-01"): 1,
        ("--since", "2100-01-01"): 0,
        ("--where", "title = 'home' -- and : more %"): 1,
        ("--where", "title LIKE '%:x%' OR 0"): 0,
    }
    for words, number in chosen.items():
        assert json.loads(reparse(data_dir, *words, *dry).stdout)["pages"] == number, words
