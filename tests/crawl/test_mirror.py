"""`scrapy crawl mirror`: the copy is complete without the original site."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser

from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply

SITE, OTHER = "127.0.1.1", "127.0.1.2"
PNG = Reply(b"\x89PNG\r\n\x1a\n0123456789", headers={"Content-Type": "image/png"})


def linked(file: Path) -> list[Path]:
    """Returns the local files that a page of the mirror links to or loads."""
    tree = LexborHTMLParser(file.read_text(encoding="utf-8-sig"))
    addresses = [
        node.attributes.get("href") or node.attributes.get("src") for node in tree.css("[href],[src]")
    ]
    urls = [urljoin(f"file://{file}", address or "") for address in addresses]
    return [Path(unquote(urlsplit(url).path)) for url in urls if url.startswith("file:")]


def test_a_mirror_can_be_browsed_without_the_site(
    local_web: Callable[..., LocalWeb], run_crawl: Callable[..., CrawlResult], tmp_path: Path
) -> None:
    web = local_web(SITE, OTHER)
    other = web.host(OTHER)
    web.put(
        SITE,
        "/",
        f"""<link rel=stylesheet href=/css/s.css><a href=/docs/>docs</a> <a href="/list?page=2">list</a>
        <a href=/old>old</a>
        <a href=/r%C3%A9sum%C3%A9/a%20b>names</a> <img src={other}/i.png> <a href={other}/page>elsewhere</a>
        <a href=/secret>secret</a> <a href=/gone>gone</a> <a href=/docs>docs</a> <iframe src={other}/frame></iframe>""",
    )
    web.put(
        SITE,
        "/css/s.css",
        Reply(f"@import 't.css'; a{{b:url({other}/j.png)}}", headers={"Content-Type": "text/css"}),
    )
    web.put(SITE, "/css/t.css", Reply("c{d:url(../k.png)}", headers={"Content-Type": "text/css"}))
    for site, path in ((OTHER, "/i.png"), (OTHER, "/j.png"), (SITE, "/k.png")):
        web.put(site, path, PNG)
    web.put(SITE, "/docs/", '<a href="../list?page=2#x">list</a><a href=.>self</a>')
    web.put(SITE, "/docs", '<a href="docs/">the folder</a>')
    web.put(SITE, "/list", "<meta charset=latin1>" + "<a href=/>home</a> <p id=x>Grüße</p>")
    web.put(SITE, "/old", Reply("", status=301, headers={"Location": "/docs/"}))
    web.put(SITE, "/r%C3%A9sum%C3%A9/a%20b", "<a href=/>home</a>")
    web.put(SITE, "/secret", "<meta name=robots content=noarchive>secret")
    web.put(OTHER, "/frame", "<img src=/of-the-frame.png><a href=/of-the-frame>x</a>")
    folder = tmp_path / "copy"
    result = run_crawl(
        "mirror",
        [web.url(SITE)],
        arguments={"to": folder},
        ALLOWED_NETWORKS="127.0.0.0/8",
    )
    assert result.stdout.endswith(f"Wrote 11 files to {folder}.\n")
    assert re.search(rf"^  results in  .*metadata\.db; {folder}$", result.stderr, re.MULTILINE)
    here, there = (folder / urlsplit(web.url(site)).netloc.replace(":", "_") for site in (SITE, OTHER))
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    mine = {"index.html", "docs/index.html", "docs.html", "list@page=2.html", "résumé/a_b.html"}
    mine |= {"css/s.css", "css/t.css", "k.png"}
    assert files == {f"{here.name}/{name}" for name in mine} | {
        f"{there.name}/{name}" for name in ("i.png", "j.png", "frame.html")
    }
    pages = list(folder.rglob("*.html"))
    assert all(target.exists() for page in pages for target in linked(page))
    home = (here / "index.html").read_text(encoding="utf-8-sig")
    assert home.count('href="docs/index.html"') == 2  # including the link to the redirect
    for absolute in (f"{other}/page", web.url(SITE, "/secret"), web.url(SITE, "/gone")):
        assert f'href="{absolute}"' in home
    assert f"url(../../{there.name}/j.png)" in (here / "css" / "s.css").read_text()
    assert "Grüße" in (here / "list@page=2.html").read_text(encoding="utf-8-sig")
    assert (here / "k.png").read_bytes() == PNG.body
    assert "/of-the-frame" not in str(web.urls())
