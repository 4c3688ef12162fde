"""A crawl reads declarative shadow roots and lazy images as a browser does: text, links, images, Markdown, copies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyarrow import parquet

from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"
PNG = Reply(b"\x89PNG\r\n\x1a\n0123456789", headers={"Content-Type": "image/png"})
PAGE = """<html lang=en><title>Shop</title><x-shop><template shadowrootmode=open>
<style>p { background: image-set("/1.png" 1x) }</style>
<main><h1><slot name=title>No title</slot></h1><p>Welcome to <a href=/inside>the shop</a>.</p><slot></slot></main>
</template><span slot=title>The shop</span><p>See <a href=/slotted>our offers</a> and
<img src=data:x data-src=/2.png data-srcset="/3.png 2x" alt=offers></p><a slot=none href=/unseen>unseen</a></x-shop>
<template><a href=/template>template</a></template>"""
PATHS = ["/inside", "/slotted", "/unseen"]
PICTURES = ["/1.png", "/2.png", "/3.png"]


def fill(web: LocalWeb) -> None:
    web.put(SITE, "/", PAGE)
    for path in PATHS:
        web.put(SITE, path, f"<title>{path}</title><p>Page {path}")
    for path in PICTURES:
        web.put(SITE, path, PNG)


def test_text_links_and_images_are_read(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    fill(web)
    home = web.url(SITE)
    result = crawl([home], PAGE_RESOURCES=True, TEXT="parquet", TEXT_MARKDOWN=True, LINKS=True)
    assert sorted(web.paths(SITE)) == sorted(["/", "/robots.txt", *PATHS, *PICTURES])
    texts = {row["url"]: row for row in rows_of(result.data_dir, "texts")}
    assert texts[home]["text"].split("\n") == ["The shop", "Welcome to the shop.", "See our offers and"]
    site = web.host(SITE)
    assert texts[home]["markdown"] == (
        f"# The shop\n\nWelcome to [the shop]({site}/inside).\n\n"
        f"See [our offers]({site}/slotted) and ![offers]({site}/2.png)"
    )
    links = [row["to_url"] for row in rows_of(result.data_dir, "links") if row["from_url"] == home]
    assert sorted(links) == [site + path for path in PATHS]


def rows_of(folder: Path, name: str) -> list[dict[str, Any]]:
    return [
        row
        for path in folder.rglob("*.parquet")
        if name in path.parts
        for row in parquet.read_table(path).to_pylist()
    ]


def test_a_mirror_keeps_shadow_roots(local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path) -> None:
    web = local_web(SITE)
    fill(web)
    folder = tmp_path / "copy"
    run_crawl("mirror", [web.url(SITE)], arguments={"to": folder}, ALLOWED_NETWORKS="127.0.0.0/8")
    here = folder / urlsplit(web.url(SITE)).netloc.replace(":", "_")
    files = {str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()}
    assert files == {"index.html", *(f"{path[1:]}.html" for path in PATHS), *(path[1:] for path in PICTURES)}
    copy = (here / "index.html").read_text(encoding="utf-8-sig")
    for expected in (
        '<template shadowrootmode="open">',
        'image-set("1.png" 1x)',
        'href="inside.html"',
        'data-src="2.png" data-srcset="3.png 2x"',
        'slot="none" href="unseen.html"',
    ):
        assert expected in copy
