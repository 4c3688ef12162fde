"""`webcrawl page URL`: the Markdown of a page that is stored, or fetched for this, in a folder without a project."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.console import OPTIONS, PROGRAM, webcrawl
from tests.documents.pdfs import pdf
from tests.web import LocalWeb, Reply

SITE, OTHER = "127.0.1.1", "127.0.1.2"
StartWeb = Callable[..., LocalWeb]
MARKDOWN = "# Hello\n\nSome **bold** words.\n"


@pytest.fixture
def web(local_web: StartWeb) -> LocalWeb:
    web = local_web(SITE, OTHER)
    web.put(SITE, "/", "<title>Home</title><h1>Hello</h1><p>Some <b>bold</b> words.</p><a href=/a></a>")
    web.put(SITE, "/kept-out", "<meta name=robots content='noarchive, noindex'><p>Not to be kept</p>")
    web.put(
        SITE,
        "/latin",
        Reply("<p>caf\xe9".encode("latin-1"), headers={"Content-Type": "text/html;charset=latin-1"}),
    )
    web.put(SITE, "/old", Reply(status=301, headers={"Location": web.url(OTHER, "/new")}))
    web.put(SITE, "/gone", Reply("<p>Gone for good", status=410))
    web.put(SITE, "/private", "secret")
    web.put(SITE, "/robots.txt", "User-agent: *\nDisallow: /private")
    web.put(SITE, "/pdf", Reply(pdf("Paper"), headers={"Content-Type": "application/pdf"}))
    web.put(OTHER, "/new", "<p>Moved here</p>")
    return web


def page(url: str, *options: str, folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    return webcrawl("page", url, *options, *OPTIONS, folder=folder, code=code)


def test_a_page_that_is_not_stored_is_fetched_and_leaves_nothing(web: LocalWeb, tmp_path: Path) -> None:
    done = page(web.url(SITE), folder=tmp_path)
    assert done.stdout.startswith(MARKDOWN) and done.stderr == ""
    assert [hit.path for hit in web.hits] == ["/robots.txt", "/"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "options", "shown"),
    [
        ("/", ["--text"], "Hello\nSome bold words.\n"),
        ("/", ["--html"], "<title>Home</title><h1>Hello</h1>"),
        ("/latin", ["--html"], "<p>caf\xe9\n"),
        ("/kept-out", [], "Not to be kept\n"),
        ("/pdf", [], "Paper\n"),
    ],
)
def test_the_forms_of_a_page(
    path: str, options: list[str], shown: str, web: LocalWeb, tmp_path: Path
) -> None:
    assert page(web.url(SITE, path), *options, folder=tmp_path).stdout.startswith(shown)


def test_json_has_the_row_with_text_and_markdown(web: LocalWeb, tmp_path: Path) -> None:
    row = json.loads(page(web.url(SITE), "--json", folder=tmp_path).stdout)
    assert (row["url"], row["status"], row["title"]) == (web.url(SITE), 200, "Home")
    assert row["text"].startswith("Hello\n") and row["markdown"].startswith(MARKDOWN.rstrip())


def test_a_redirect_leads_to_its_page(web: LocalWeb, tmp_path: Path) -> None:
    options = ("-s", "ALLOWED_NETWORKS=127.0.0.0/8")
    assert page(web.url(SITE, "/old"), *options, folder=tmp_path).stdout == "Moved here\n"


def test_a_stored_page_is_shown_until_it_is_wanted_anew(web: LocalWeb, tmp_path: Path) -> None:
    home = web.url(SITE)
    webcrawl("crawl", home, "--scope", "host", "--max-pages", "1", *OPTIONS, folder=tmp_path)
    web.put(SITE, "/", "<p>New words</p>")
    web.hits.clear()
    assert page(home, folder=tmp_path).stdout.startswith(MARKDOWN)
    assert page(home, "--body", folder=tmp_path).stdout.startswith("<title>Home</title>")
    assert not web.hits
    assert page(home, "--fetch", folder=tmp_path).stdout == "New words\n"
    assert page(home, folder=tmp_path).stdout.startswith(MARKDOWN)


def test_options_about_the_store_fetch_nothing(web: LocalWeb, tmp_path: Path) -> None:
    for option in ("--row", "--body", "--headers"):
        error = page(web.url(SITE), option, folder=tmp_path, code=1).stderr
        assert error.startswith("webcrawl page: nothing was stored yet: ") and error.count("\n") == 1
    assert not web.hits


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://no-such-host.example/", "cannot resolve no-such-host.example"),
        ("http://127.0.0.1:9/", "Connection refused"),
        ("{site}/private", "robots.txt disallows it"),
    ],
)
def test_a_page_without_a_response_says_why(url: str, reason: str, web: LocalWeb, tmp_path: Path) -> None:
    url = url.format(site=web.host(SITE))
    done = page(url, folder=tmp_path, code=1)
    assert done.stderr.startswith(f"No response from {url}: ") and reason in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_an_http_error_is_named_and_shown(web: LocalWeb, tmp_path: Path) -> None:
    url = web.url(SITE, "/gone")
    done = page(url, folder=tmp_path, code=1)
    assert (done.stderr, done.stdout) == (f"webcrawl page: {url} answered 410 Gone\n", "Gone for good\n")
    done = page(web.url(SITE, "/nowhere"), folder=tmp_path, code=1)
    assert done.stderr.count("\n") == 1 and "answered 404 Not Found" in done.stderr


def test_what_is_no_url_gets_one_line(tmp_path: Path) -> None:
    done = page("file:///etc/hostname", folder=tmp_path, code=1)
    assert done.stderr == "webcrawl page: 'file:///etc/hostname' is not a URL of http, https, ftp\n"


def test_a_reader_may_close_its_end(web: LocalWeb, tmp_path: Path) -> None:
    web.put(SITE, "/long", f"<p>{'<p>'.join(f'paragraph {number}' for number in range(50_000))}")
    words = [*PROGRAM, "page", web.url(SITE, "/long"), *OPTIONS]
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith("paragraph 0")
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 0


@pytest.mark.skipif(
    not (shutil.which("chromium-headless-shell") or shutil.which("chromium")), reason="needs a Chromium"
)
def test_a_page_is_rendered(web: LocalWeb, tmp_path: Path) -> None:
    web.put(SITE, "/app", "<title>App</title><script>document.write('<p>Made by a script</p>')</script>")
    assert page(web.url(SITE, "/app"), "--render", folder=tmp_path).stdout == "# App\n\nMade by a script\n"


def test_the_shell_has_a_page_without_a_project(web: LocalWeb, tmp_path: Path) -> None:
    words = ("shell", web.url(SITE), "-c", "response.css('title::text').get()", *OPTIONS)
    assert webcrawl(*words, folder=tmp_path).stdout == "Home\n"
    assert list(tmp_path.iterdir()) == []
