"""Crawls of a real FTP server: files, folders, robots.txt, WARC records and refused requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from warcio.archiveiterator import ArchiveIterator

from tests.crawl.archive import check
from tests.crawls import CrawlResult
from tests.ftpserver import Script, vsftpd
from tests.web import LocalWeb

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

LOGIN_REFUSED = "status 503: login refused: 530 This FTP server is anonymous only."
LARGE = bytes(range(256)) * 2000


def filled(folder: Path) -> Path:
    """Fills a folder for the server; returns it."""
    root = folder / "served"
    (root / "pub" / "sub folder").mkdir(parents=True)
    (root / "private").mkdir()
    (root / "robots.txt").write_text("User-agent: *\nDisallow: /private/\n")
    (root / "hello.html").write_text("<title>Hello</title><a href='pub/'>pub</a>")
    (root / "pub" / "large.bin").write_bytes(LARGE)
    (root / "pub" / "sub folder" / "grüße & #1.txt").write_text("words in a file")
    (root / "private" / "secret.txt").write_text("secret")
    (root / "unreadable.txt").write_text("unreadable")
    return root


def test_an_ftp_server_is_crawled(run_crawl: RunCrawl, tmp_path: Path) -> None:
    with vsftpd(tmp_path, filled(tmp_path)) as port:
        host = f"ftp://127.0.0.1:{port}"
        seeds = [f"{host}/", f"{host}/pub", f"{host}/missing", f"{host}/missing/"]
        result = run_crawl("broad", seeds)
    rows = {row["url"].removeprefix(host): row for row in result.rows()}
    file = "/pub/sub%20folder/gr%C3%BC%C3%9Fe%20%26%20%231.txt"
    found = {path: row["mime_type"] for path, row in rows.items() if row["status"] == 200}
    assert found == {
        "/": "text/html",
        "/hello.html": "text/html",
        "/robots.txt": "text/plain",
        "/unreadable.txt": "text/plain",
        "/pub": "text/html",
        "/pub/": "text/html",
        "/pub/large.bin": "application/octet-stream",
        "/pub/sub%20folder/": "text/html",
        file: "text/plain",
    }
    assert {path for path, row in rows.items() if row["status"] == 404} == {"/missing", "/missing/"}
    assert not [path for path in rows if "private" in path and rows[path]["status"]]
    assert result.summary["robots_denied"] == 1
    assert (rows["/hello.html"]["title"], rows["/"]["title"]) == ("Hello", "Index of 127.0.0.1/")
    assert rows["/hello.html"]["last_modified"].endswith("GMT")
    assert rows["/pub/"]["duplicate_of"] == f"{host}/pub" or rows["/pub"]["duplicate_of"] == f"{host}/pub/"
    assert rows["/pub/large.bin"]["length"] == len(LARGE)
    check(result.data_dir)
    assert archived(result.data_dir)[f"{host}/pub/large.bin"] == (
        "resource",
        "application/octet-stream",
        LARGE,
    )
    index = "".join(path.read_text() for path in (result.data_dir / "warc").glob("*.cdxj"))
    assert f'"url": "{host}{file}"' in index
    commands = (tmp_path / "commands").read_text()
    assert '"EPSV"' in commands and '"PASV"' not in commands
    assert commands.count('"USER anonymous"') == commands.count('"QUIT"') == 1


def archived(data_dir: Path) -> dict[str, tuple[str, str, bytes]]:
    found = {}
    for path in (data_dir / "warc").glob("*.warc.gz"):
        with path.open("rb") as file:
            for record in ArchiveIterator(file):
                if record.rec_type in ("response", "resource", "request"):
                    headers = record.rec_headers
                    content = record.content_stream().read()
                    found[headers["WARC-Target-URI"]] = (record.rec_type, headers["Content-Type"], content)
    return found


def test_links_from_http_to_ftp_are_followed_unless_ftp_is_disabled(
    run_crawl: RunCrawl, local_web: StartWeb, tmp_path: Path
) -> None:
    web = local_web("127.0.1.1")
    with vsftpd(tmp_path, filled(tmp_path)) as port:
        linked = f"ftp://127.0.0.1:{port}/hello.html"
        others = "<a href='file:///etc/passwd'>f</a><a href='data:text/html,x'>d</a><a href='sftp://h/'>s</a>"
        home = web.put("127.0.1.1", "/", f"<a href='{linked}'>there</a>{others}")
        options = {"arguments": {"scope": "web"}, "ALLOWED_NETWORKS": "127.0.0.0/8"}
        result = run_crawl("broad", [home], DEPTH_LIMIT=1, **options)
        assert {row["url"] for row in result.rows()} == {home, linked}
        off = '{"ftp": null, "http": "webcrawl.crawler.download.http.HTTPDownloadHandler"}'
        result = run_crawl("broad", [home], CRAWL_ID="off", DOWNLOAD_HANDLERS=off, **options)
        assert result.summary["seen_urls"] == 1


def test_a_linked_private_address_is_refused(
    run_crawl: RunCrawl, local_web: StartWeb, tmp_path: Path
) -> None:
    web = local_web("127.0.1.1")
    with vsftpd(tmp_path, filled(tmp_path)) as port:
        home = web.put("127.0.1.1", "/", f"<a href='ftp://127.0.0.1:{port}/hello.html'>there</a>")
        result = run_crawl("broad", [home], arguments={"scope": "web"})
    assert result.summary["addresses_refused"] == 1
    assert "USER" not in (tmp_path / "commands").read_text()


def test_unusual_file_names_are_crawled_unchanged(run_crawl: RunCrawl, tmp_path: Path) -> None:
    root = tmp_path / "served"
    folders = ("città", "ÆØÅ", "idą", "国内", " lead", "trail ", "a\u0085")
    for number, name in enumerate(folders):
        (root / name).mkdir(parents=True)
        (root / name / f"{name}").write_text(f"words of file {number}, {number * 7919} of them")
    with vsftpd(tmp_path, root) as port:
        host = f"ftp://127.0.0.1:{port}/"
        rows = run_crawl("broad", [host]).rows()
    found = {row["url"].removeprefix(host) for row in rows if row["status"] == 200}
    paths = [quote(name) for name in folders]
    assert found == {"", *(f"{path}/" for path in paths), *(f"{path}/{path}" for path in paths)}
    assert {row["status"] for row in rows} == {200}
    assert {row["processing_error"] for row in rows} == {None}


def test_a_refused_login_is_reported(run_crawl: RunCrawl, tmp_path: Path) -> None:
    with vsftpd(tmp_path, filled(tmp_path)) as port:
        url = f"ftp://127.0.0.1:{port}/hello.html"
        options = {
            "FTP_USER": "somebody",
            "FRONTIER_RETRY_DELAY": 0.1,
            "POLITENESS_BACKOFF": 0.1,
            "FRONTIER_MAX_ATTEMPTS": 2,
        }
        result = run_crawl("broad", [url], **options, status=1)
        assert [row["error"] for row in result.rows()] == [
            f"RobotsUnreachable: ftp://127.0.0.1:{port}/robots.txt is unreachable: {LOGIN_REFUSED}"
        ]
        result = run_crawl("broad", [url], CRAWL_ID="rude", ROBOTSTXT_OBEY=False, **options, status=1)
    letters = run_crawl("rude", command=("stuck",), data_dir=result.data_dir)
    assert LOGIN_REFUSED in letters.stdout


def test_an_unreadable_listing_is_reported(run_crawl: RunCrawl) -> None:
    async def crawl() -> CrawlResult:
        answers = {
            "CWD": "550 no",
            "EPSV": "229 ok (|||{port}|)",
            "LIST": "150 coming\r\n226 done",
            "RETR": "550 none",
        }
        async with Script(answers, b"01-31-20  10:00AM       <DIR>          sub\r\nhello\r\n") as server:
            return await asyncio.to_thread(run_crawl, "broad", [server.url("/")], DEPTH_LIMIT=1)

    result = asyncio.run(crawl())
    home, folder = sorted(result.rows(), key=lambda row: str(row["url"]))
    assert (home["status"], home["title"]) == (200, "Index of 127.0.0.1/")
    warning = "1 of 2 lines of the listing could not be read, the first is 'hello'"
    assert home["processing_error"] == warning
    assert folder["url"].endswith("/sub/")
    assert folder["status"] == 404


def test_a_path_that_cannot_be_sent_is_not_counted_as_a_refused_address(
    run_crawl: RunCrawl, tmp_path: Path
) -> None:
    with vsftpd(tmp_path, filled(tmp_path)) as port:
        result = run_crawl("broad", [f"ftp://127.0.0.1:{port}/a%0Db"], status=1)
    (row,) = result.rows()
    assert "an FTP path cannot contain a line break" in row["error"]
    assert result.summary["addresses_refused"] == 0


def test_seeds_with_other_schemes_are_refused(run_crawl: RunCrawl) -> None:
    result = run_crawl("broad", ["file:///etc/passwd", "data:text/html,x"], status=1)
    assert "There is nothing to crawl" in result.stderr
    for seed in ("file:///etc/passwd", "data:text/html"):
        assert f"Skipping a seed: '{seed}' is not a URL of http, https, ftp" in result.stderr
