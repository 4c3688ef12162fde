"""The examples of the how-tos run, in a project to which all of them were added."""

from __future__ import annotations

import io
import json
import re
import shutil
import socketserver
import sqlite3
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.crawl import test_render
from tests.crawls import CHECKOUT, scrapy
from tests.davserver import DavServer
from tests.documents import epub as epub_of
from tests.project.documentation import (
    BLOCK,
    EXAMPLES,
    HOWTOS,
    PROGRAMS,
    PROJECT,
    blocks,
    new_tests,
)
from tests.s3server import weed_binary
from tests.web import LocalWeb, Reply
from webcrawl.stores.objects.store import open_store

# only if the extra 'render' is installed
RENDERS = ["render-pages.md"] if find_spec("scrapy_playwright") else []
REGISTERING = [
    *("add-a-mime-type-pipeline.md", "add-a-term.md", "add-a-url-filter.md", "change-a-politeness-rule.md"),
    *RENDERS,
]


def shown() -> Iterator[tuple[Path, str]]:
    """Yields (example, the code block that follows the link to it) of the how-tos."""
    for page in HOWTOS:
        text = page.read_text()
        for link in re.finditer(r"\]\(\.\./\.\./(examples/[\w/]+\.(?:py|lua))\)", text):
            block = BLOCK.search(text, link.end())
            assert block, f"{page.name}: no code block after the link to {link[1]}"
            yield CHECKOUT / link[1], block[2]


def test_every_example_is_shown_verbatim() -> None:
    assert sorted(path for path, _ in shown()) == EXAMPLES
    for path, code in shown():
        assert code == path.read_text(), path


def registered(howto: str) -> tuple[str, str, int]:
    """Returns setting, class and number that a how-to registers: the last entry of its dict."""
    (page,) = (page for page in HOWTOS if page.name == howto)
    codes = blocks(page, "python")
    code = next(code for code in codes if re.match(r"[A-Z_]+ = \{\n", code))
    setting = re.match(r"(\w+) = \{", code)
    path, number = re.findall(r'"([\w.]+)": (\d+),', code)[-1]
    assert setting
    return setting[1], path, int(number)


def registered_stores() -> dict[str, str]:
    """Returns URI scheme -> class that the how-to about stores registers."""
    page = CHECKOUT / "docs" / "howto" / "add-a-storage-backend.md"
    code = next(code for code in blocks(page, "python") if code.startswith("OBJECT_STORES"))
    return dict(re.findall(r'"(\w+)": "([\w.]+)",', code))


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the changes of all how-tos."""
    folder = tmp_path_factory.mktemp("extended")
    for name in (*PROJECT, "pyproject.toml"):
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, folder / name)  # with what is compiled
        else:
            shutil.copy(source, folder)
    code = "\n".join(code for page in HOWTOS for code in blocks(page, "sh"))
    copies = re.findall(r"^cp (examples/\S+) (\S+/)$", code, re.MULTILINE)
    assert sorted(CHECKOUT / example for example, _ in copies) == sorted(set(EXAMPLES) - set(PROGRAMS))
    for example, place in copies:
        shutil.copy(CHECKOUT / example, folder / place)
    with (folder / "settings" / "base.py").open("a") as settings:
        for howto in REGISTERING:
            setting, path, number = registered(howto)
            settings.write(f"{setting}[{path!r}] = {number}\n")
        settings.write(f"OBJECT_STORES = {registered_stores()!r}\n")
        settings.write('COMMANDS_MODULE = "webcrawl.commands"\n')
        settings.write('USER_AGENT = "examplebot/1.0 (+https://example.com/bot)"\n')
        settings.write(
            'DOWNLOADER_MIDDLEWARES["webcrawl.middlewares.politeness.PolitenessMiddleware"] = None\n'
        )
        handler = "webcrawl.crawler.download.gopher.GopherDownloadHandler"
        settings.write(f'DOWNLOAD_HANDLERS["gopher"] = "{handler}"\n')
    return folder


def fill(web: LocalWeb) -> None:
    links = "".join(f'<a href="{path}">x</a>' for path in ("/book", "/broken", "/2031/05/", "/a.png"))
    web.put("127.0.1.1", "/", f"<title>Home</title><h1> Home, sweet home </h1>{links}")
    epub = {"Content-Type": "application/epub+zip"}
    book = epub_of("<p>Once upon</p> <a href='" + web.url("127.0.1.1", "/2026/") + "'>a time</a>")
    web.put("127.0.1.1", "/book", Reply(book, headers=epub))
    web.put("127.0.1.1", "/broken", Reply(book[: len(book) // 2], headers=epub))
    web.put("127.0.1.1", "/2026/", "<p>no headline")
    web.put("127.0.1.1", "/a.png", Reply(b"\x89PNG\r\n\x1a\n", headers={"Content-Type": "image/png"}))


def test_a_crawl_uses_the_examples(
    extended: Path, local_web: Callable[..., LocalWeb], tmp_path: Path
) -> None:
    web = local_web("127.0.1.1")
    fill(web)
    options = ["-s", "DOWNLOAD_DELAY=0", "-s", "URL_LAST_YEAR=2026", "-s", f"DATA_DIR={tmp_path}"]
    scrapy(
        *("crawl", "headlines", "-a", f"seeds={web.url('127.0.1.1')}", "-a", "scope=host", *options),
        cwd=extended,
    )
    fetched = ["/", "/2026/", "/a.png", "/book", "/broken"]
    assert sorted(set(web.paths("127.0.1.1")) - {"/robots.txt"}) == fetched
    with closing(sqlite3.connect(tmp_path / "metadata.db")) as database:
        rows = database.execute("SELECT replace(url, ?, ''), title FROM pages", [web.host("127.0.1.1")])
        titles = dict(rows)
        (error, details) = database.execute(
            "SELECT max(processing_error), max(details) FROM pages WHERE mime_type = 'application/epub+zip'"
        ).fetchone()
    expected: dict[str, Any] = dict.fromkeys(fetched)
    assert titles == expected | {"/": "Home", "/book": "A book"}
    assert error == "application/epub+zip is broken: File is not a zip file"
    assert json.loads(details) == {"chapters": 1}
    lines = (extended / "headlines.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"url": web.url("127.0.1.1"), "text": "Home, sweet home"}]


@contextmanager
def gopher_hole(pages: dict[bytes, bytes]) -> Iterator[int]:
    """Runs a Gopher server on loopback; yields its port."""

    class Hole(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            selector = self.rfile.readline().rstrip(b"\r\n")
            self.wfile.write(pages.get(selector, b"3gone\t\terror.host\t1\r\n.\r\n"))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Hole) as server:
        threading.Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_the_protocol_example_is_crawled(extended: Path, tmp_path: Path) -> None:
    pages: dict[bytes, bytes] = {
        b"/notes": b"some notes",
        b"robots.txt": b"User-agent: *\nDisallow: /0/secret",
    }
    with gopher_hole(pages) as port:
        there = b"\t127.0.0.1\t%d\r\n" % port
        pages[b""] = (
            b"0Notes\t/notes"
            + there
            + b"0Secret\t/secret"
            + there
            + b"0Away\t/x\texample.invalid\t70\r\n.\r\n"
        )
        seed = f"gopher://127.0.0.1:{port}/"
        words = [
            "crawl",
            "broad",
            "-a",
            f"seeds={seed}",
            "-s",
            f"DATA_DIR={tmp_path}",
            "-s",
            "DOWNLOAD_DELAY=0",
        ]
        scrapy(*words, "-s", "DNS_SERVERS=127.0.0.1:9", cwd=extended)
    with closing(sqlite3.connect(tmp_path / "metadata.db")) as database:
        rows = dict(database.execute("SELECT url, mime_type FROM pages"))
    assert rows[seed] == "text/html" and rows[f"{seed}0/notes"] == "text/plain"


@pytest.mark.slow
@pytest.mark.skipif(weed_binary() is None, reason="no WebDAV server for this platform")
def test_the_store_example_holds_a_whole_crawl(
    extended: Path, local_web: Callable[..., LocalWeb], tmp_path: Path
) -> None:
    """The store holds WARC files, spilled queues, a checkpoint, an export and a WACZ file."""
    web = local_web("127.0.1.1")
    paths = [f"/{number}" for number in range(40)]
    web.put("127.0.1.1", "/", "".join(f"<a href={path}>{path}</a>" for path in paths))
    for path in paths:
        web.put("127.0.1.1", path, f"<title>{path}</title>page {path}")

    def run(*words: str, data: str = "data") -> str:
        stores = ("-s", f"STORE_URI={server.uri}/pages", "-s", f"FRONTIER_SPILL_URI={server.uri}/queues")
        options = ("-s", "FRONTIER_HOT_URLS=8", "-s", f"DATA_DIR={tmp_path / data}")
        done = scrapy(*words, *stores, *options, cwd=extended)
        return done.stdout

    def crawl(*options: str, data: str = "data") -> None:
        run("crawl", "broad", "-a", f"seeds={web.url('127.0.1.1')}", "-a", "scope=host", *options, data=data)

    (tmp_path / "server").mkdir()
    with DavServer(tmp_path / "server") as server:
        crawl("-s", "CLOSESPIDER_PAGECOUNT=10", "-s", "DOWNLOAD_DELAY=0.15")
        store = open_store(server.uri, "STORE_URI", {"dav": "examples.stores.webdav.WebDavStore"})
        segments = [found.name for found in store.objects("queues/") if found.size]
        assert segments, "no queue was spilled"
        assert f"is in {server.uri}/copy" in run("checkpoint", f"{server.uri}/copy")
        run("restore", f"{server.uri}/copy", data="restored")
        crawl("-s", "DOWNLOAD_DELAY=0", data="restored")
        assert set(paths) <= set(web.paths("127.0.1.1"))
        assert "pages in 1 file:" in run(
            "export", "-o", f"{server.uri}/export", "--format", "jsonl", data="restored"
        )
        assert "records of" in run(
            "export", "--format", "wacz", "-o", f"{server.uri}/c.wacz", data="restored"
        )
        warcs = {found.name for found in store.objects("pages/") if found.name.endswith(".warc.gz")}
        assert len(warcs) == 2, "each run must write one file"
        (exported,) = [found.name for found in store.objects("export/date=")]
        titles = {json.loads(line).get("title") for line in b"".join(store.chunks(exported)).splitlines()}
        with zipfile.ZipFile(io.BytesIO(b"".join(store.chunks("c.wacz")))) as wacz:
            packed = {Path(name).name for name in wacz.namelist() if name.startswith("archive/")}
        assert packed == {Path(name).name for name in warcs}
    assert not list((tmp_path / "restored").rglob("*.warc.gz"))
    assert titles and titles <= {None, *paths}


@test_render.pytestmark
def test_the_rendering_example_presses_the_button(
    extended: Path, local_web: Callable[..., LocalWeb], tmp_path: Path
) -> None:
    web = local_web("127.0.1.1")
    button = "<button class=more onclick='this.outerHTML = `<a href=/found>x</a>`'>more</button>"
    web.put("127.0.1.1", "/list", f"<title>list</title>{button}")
    words = ["crawl", "broad", "-a", f"seeds={web.url('127.0.1.1', '/list')}", "-s", f"DATA_DIR={tmp_path}"]
    options = ["-s", "DOWNLOAD_DELAY=0", "-s", "RENDER=127.0.1.1", "-s", "DNS_SERVERS=127.0.0.1:9"]
    scrapy(*words, *options, cwd=extended)
    assert "/found" in web.paths("127.0.1.1")


def test_the_filter_example_names_its_setting(extended: Path, tmp_path: Path) -> None:
    words = ["crawl", "broad", "-a", "seeds=http://127.0.0.1:1/", "-s", f"DATA_DIR={tmp_path}"]
    done = scrapy(*words, "-s", "URL_LAST_YEAR=soon", cwd=extended, status=2)
    assert (done.returncode, done.stderr) == (2, "scrapy crawl: URL_LAST_YEAR must be a year, not 'soon'\n")


def test_the_politeness_example_backs_off_after_403(
    extended: Path, local_web: Callable[..., LocalWeb], tmp_path: Path
) -> None:
    web = local_web("127.0.1.1")
    web.put("127.0.1.1", "/", "<a href=/no>x</a><a href=/last>x</a>")
    web.put("127.0.1.1", "/no", Reply("no", status=403))
    web.put("127.0.1.1", "/last", "last")
    words = ["crawl", "broad", "-a", f"seeds={web.url('127.0.1.1')}", "-s", f"DATA_DIR={tmp_path}"]
    scrapy(*words, "-s", "DOWNLOAD_DELAY=0", "-s", "POLITENESS_BACKOFF=0.7", cwd=extended)
    refused, last = web.log("127.0.1.1")[-2:]
    assert [refused.path, last.path] == ["/no", "/last"]
    assert last.started - refused.finished >= 0.7


def test_the_frontier_example_counts_by_level(
    extended: Path, local_web: Callable[..., LocalWeb], tmp_path: Path
) -> None:
    web = local_web("127.0.1.1")
    web.put("127.0.1.1", "/", "".join(f"<a href=/{n}>x</a>" for n in range(40)))
    run = partial(scrapy, cwd=extended)
    data = ["-s", f"DATA_DIR={tmp_path}"]
    seed = f"seeds={web.url('127.0.1.1')}"
    done = run("crawl", "broad", "-a", seed, *data, "-s", "CRAWL_MAX_PAGES=1", "-s", "DOWNLOAD_DELAY=0")
    assert done.returncode == 0, done.stderr
    shown = run("levels", web.url("127.0.1.1"), *data)
    assert shown.returncode == 0, shown.stderr
    counts = {int(priority): int(urls) for priority, urls in map(str.split, shown.stdout.splitlines())}
    queued = json.loads(run("host", web.host("127.0.1.1"), "--json", *data).stdout)["queued"]
    assert sum(counts.values()) == queued > 20


def test_the_extended_project_passes_the_tests_of_settings_and_of_howtos(extended: Path) -> None:
    for name in ("tests", "docs"):
        shutil.copytree(CHECKOUT / name, extended / name)
    written = {path: code for page in HOWTOS for path, code in new_tests(page).items()}
    assert len(written) == 4
    for path, code in written.items():
        (extended / path).write_text(code)
    tests = [
        "tests/project/test_settings.py::test_base_names_the_addon_and_sets_no_default",
        "tests/project/test_settings.py::test_production_without_an_environment_equals_base",
        "tests/project/test_settings.py::test_the_settings_of_the_project_are_accepted",
        "tests/project/test_settings_page.py::test_the_stated_type_and_default_are_the_real_ones",
        *written,
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run([*command, *tests], cwd=extended, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout


def test_the_extended_project_keeps_the_import_contracts(extended: Path) -> None:
    program = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=extended, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stdout
