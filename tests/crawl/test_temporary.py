"""`scrapy shell`, `fetch`, `parse` and `check` run on a temporary crawl and leave the real one alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.crawls import CHECKOUT, NO_NAMES, CrawlResult, scrapy
from tests.web import LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE, OTHER = "127.0.1.1", "127.0.1.2"
HTML = {"Content-Type": "text/html"}
OPTIONS = ("-s", f"DNS_SERVERS={NO_NAMES}", "-s", "DOWNLOAD_DELAY=0")
LONGEST = 60
"""Seconds for one command; a shell that waits for the workers of another process takes over 70."""

_WITHOUT_ENGINE = """
import sys
import webcrawl.engine.embedded as embedded
from scrapy.cmdline import execute
from webcrawl.errors import EngineUnavailable

def server_binary():
    raise EngineUnavailable("no embedded Valkey for this platform")

embedded.server_binary = server_binary
execute(["scrapy", *sys.argv[1:]])
"""

_SPIDER = """
import scrapy

class Opened:
    def open_spider(self):
        open("opened", "w").close()

    def process_item(self, item):
        return item


class Checked(scrapy.Spider):
    name = "{name}"

    def parse(self, response):
        '''
        @url {url}
        @returns items 1
        '''
        yield {{"title": response.css("title::text").get()}}
        for link in response.css("a::attr(href)").getall():
            yield scrapy.Request(link)
"""


class Commands:
    """Runs commands with a folder for temporary files of their own."""

    def __init__(self, temporary: Path, project: Path = CHECKOUT) -> None:
        self.temporary = temporary
        self.project = project

    def popen(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "scrapy", *words, *OPTIONS],
            cwd=self.project,
            env={**os.environ, **self.env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def env(self) -> dict[str, str]:
        return {"TMPDIR": str(self.temporary), "SCRAPY_PYTHON_SHELL": "python"}

    def run(self, *words: str, code: int = 0, typed: str = "") -> str:
        """Runs a command, which must exit with `code` and leave no folder; returns its output."""
        done = scrapy(
            *words, *OPTIONS, cwd=self.project, env=self.env, typed=typed, timeout=LONGEST, status=code
        )
        assert self.left() == []
        return done.stdout + done.stderr

    def left(self) -> list[Path]:
        """The temporary data folders."""
        return list(self.temporary.glob("webcrawl-*/engine"))


@pytest.fixture
def commands() -> Iterator[Commands]:
    # not in pytest's folder: the path of a socket is limited to about 100 bytes
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        yield Commands(Path(folder))


@pytest.fixture
def site(local_web: StartWeb) -> Iterator[LocalWeb]:
    web = local_web(SITE, OTHER)
    web.put(SITE, "/robots.txt", "User-agent: *\nDisallow: /private\nSitemap: /sitemap.xml\n")
    web.put(SITE, "/", Reply("<title>Home</title>", headers=HTML))
    web.put(SITE, "/later", Reply("<title>Later</title>", headers=HTML))
    web.put(SITE, "/again", Reply(status=302, headers={"Location": "/later"}))
    web.put(SITE, "/inside", Reply(status=302, headers={"Location": web.url(OTHER, "/secret")}))
    web.put(SITE, "/slow", Reply("slow", delay=30))
    web.put(OTHER, "/secret", "inside")
    return web


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a data folder, but for those of the engine, which changes them by itself."""
    names = [path for path in folder.rglob("*") if path.is_file() and "engine" not in path.parts]
    return {str(path): path.read_bytes() for path in names}


@pytest.mark.parametrize("shared", [False, True], ids=["embedded", "server"])
def test_a_page_that_commands_fetched_is_still_crawled(
    site: LocalWeb, crawl: RunCrawl, commands: Commands, valkey: redis.Redis, redis_url: str, shared: bool
) -> None:
    settings = {"REDIS_URL": redis_url} if shared else {}
    first = crawl([site.url(SITE)], **settings)
    options = [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]
    options += ["-s", f"DATA_DIR={first.data_dir}"]
    before, keys = contents(first.data_dir), sorted(valkey.keys())
    later = site.url(SITE, "/later")
    assert "<title>Later" in commands.run("fetch", site.url(SITE, "/again"), *options)
    assert "'links': []" in commands.run("parse", later, "--spider", "broad", "--nocolour", *options)
    assert "Later" in commands.run("shell", later, "-c", "response.css('title')", *options)
    assert contents(first.data_dir) == before
    assert sorted(valkey.keys()) == keys
    asked = site.paths(SITE).count("/later")
    second = crawl([later], data_dir=first.data_dir, **settings)
    assert site.paths(SITE).count("/later") == asked + 1
    assert second.summary["pages"] == 2
    assert "/sitemap.xml" not in site.paths(SITE)


def test_a_shell_says_why_there_is_no_response(site: LocalWeb, commands: Commands) -> None:
    private, later = site.url(SITE, "/private"), site.url(SITE, "/later")
    guarded, slow = site.url(OTHER, "/secret"), site.url(SITE, "/slow")
    lines = [
        "print('first', response)",
        f"fetch({guarded!r})",
        f"fetch({site.url(SITE, '/inside')!r})",
        "fetch('http://dead.invalid/')",
        f"fetch(scrapy.Request({slow!r}, meta={{'download_timeout': 0.5}}))",
        f"fetch(scrapy.Request({later!r}))",
        f"fetch(scrapy.Request({later!r}))",
        "print('last', response)",
    ]
    output = commands.run("shell", private, typed="\n".join(lines) + "\n")
    assert "first None" in output
    assert f"No response from {private}: robots.txt disallows it." in output
    assert output.count(f"No response from {guarded}: {OTHER} is loopback") == 2, output
    assert "No response from http://dead.invalid/: cannot resolve dead.invalid" in output
    assert f"No response from {slow}: " in output
    assert f"last <200 {later}>" in output
    assert "Traceback" not in output
    assert site.paths(SITE).count("/later") == 2
    assert site.paths(OTHER) == []


def test_commands_without_a_response_fail_in_one_line(
    site: LocalWeb, commands: Commands, tmp_path: Path
) -> None:
    closed = "http://127.0.1.1:9/"
    for words in (["fetch", closed], ["shell", closed, "-c", "response.status"]):
        output = commands.run(*words, code=1)
        assert output.startswith(f"No response from {closed}: ") and output.count("\n") == 1, output
        assert "SSLContext" not in output
    # a seed as those of a crawl: its own host is exempt from the address guard, the target of its redirect is not
    assert "ALLOWED_NETWORKS" in commands.run("fetch", site.url(SITE, "/inside"), code=1)
    commands.project = site_project(tmp_path / "project", closed)
    with (commands.project / "checked" / "good.py").open("a") as spiders:
        spiders.write("\nclass Bare(Checked):\n    name = 'bare'\n    custom_settings = {'ADDONS': {}}\n")
    refused = commands.run("fetch", "--spider", "bare", closed, code=2)
    assert refused.startswith("scrapy fetch: ADDONS, set by") and refused.count("\n") == 1
    commands.project = CHECKOUT
    wrong = commands.run("fetch", closed, "-s", "FRONTIER_LEASE_SECONDS=no", code=2)
    assert "FRONTIER_LEASE_SECONDS" in wrong and wrong.count("\n") == 1


def test_a_local_file_is_opened_if_the_command_line_names_it(
    site: LocalWeb, commands: Commands, tmp_path: Path
) -> None:
    named, other = tmp_path / "named.html", tmp_path / "other.html"
    named.write_text(f"<title>Named</title><a href='{other.as_uri()}'>other</a>")
    other.write_text("<title>Other</title>")
    commands.project = site_project(tmp_path / "project", site.url(SITE))
    assert commands.run("fetch", named.as_uri()).startswith("<title>Named</title>")
    assert "Named" in commands.run("shell", str(named), "-c", "response.css('title::text').get()")
    # a page, a redirect and code in the shell lead to no file
    parsed = commands.run("parse", named.as_uri(), "--spider", "good", "-d", "2", "--nocolour", code=1)
    assert "{'title': 'Named'}" in parsed and "'Other'" not in parsed
    assert f"No response from {other.as_uri()}: not a URL of http, https, ftp" in parsed
    site.put(SITE, "/file", Reply(status=302, headers={"Location": named.as_uri()}))
    assert "Named" not in commands.run("fetch", site.url(SITE, "/file"), code=1)
    fetched = commands.run("shell", named.as_uri(), typed=f"fetch({other.as_uri()!r})\nprint(response)\n")
    assert "<title>Other" not in fetched and "not a URL of http" in fetched
    missing = commands.run("fetch", (tmp_path / "none.html").as_uri(), code=1)
    assert missing.startswith("No response from file:///") and "No such file or directory" in missing


def test_shells_on_one_server_do_not_wait_for_each_other(
    site: LocalWeb, commands: Commands, redis_url: str
) -> None:
    words = ["shell", site.url(SITE), "-s", f"REDIS_URL={redis_url}"]
    with commands.popen(*words) as first:
        assert first.stdin and first.stderr
        # the banner is printed when the page was fetched
        while "shelp()" not in first.stderr.readline():
            assert first.poll() is None
        with commands.popen(*words, "-c", "response.status") as second:
            assert second.communicate(timeout=LONGEST)[0] == "200\n"
        assert len(commands.left()) == 1
        first.kill()
    # a closed terminal kills a shell too: the keeper of its engine deletes the folder
    deadline = time.monotonic() + 60
    while commands.left() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert commands.left() == []


def test_a_command_without_an_embedded_engine_leaves_nothing_on_the_server(
    site: LocalWeb, commands: Commands, valkey: redis.Redis, redis_url: str
) -> None:
    words = ("fetch", site.url(SITE), "-s", f"REDIS_URL={redis_url}", *OPTIONS)
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_ENGINE, *words],
        cwd=CHECKOUT,
        env={**os.environ, **commands.env},
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    assert done.returncode == 0, done.stderr
    assert "<title>Home" in done.stdout
    assert commands.left() == [] and valkey.keys("*temporary*") == []


def site_project(project: Path, url: str) -> Path:
    """A project outside of the checkout with the spider `good`, whose contract fetches a URL, and a pipeline."""
    (project / "checked").mkdir(parents=True)
    (project / "scrapy.cfg").write_text("[settings]\ndefault = local\n")
    (project / "local.py").write_text(
        "ADDONS = {'webcrawl.addon.WebcrawlAddon': 100}\nCOMMANDS_MODULE = 'webcrawl.commands'\n"
        "SPIDER_MODULES = ['checked']\nITEM_PIPELINES = {'checked.good.Opened': 1}\n"
        "FEEDS = {'items.jsonl': {'format': 'jsonlines'}}\n"
    )
    (project / "checked" / "good.py").write_text(_SPIDER.format(name="good", url=url))
    return project


def test_contracts_are_checked(site: LocalWeb, commands: Commands, tmp_path: Path) -> None:
    project = site_project(tmp_path / "project", site.url(SITE))
    (project / "checked" / "bad.py").write_text(_SPIDER.format(name="bad", url=site.url(SITE, "/private")))
    commands.project = project
    output = commands.run("check", code=1)  # both spiders at once
    assert "Ran 1 contract in" in output and "FAILED (errors=1)" in output
    assert f"No response from {site.url(SITE, '/private')}: robots.txt disallows it." in output


def test_a_check_opens_no_pipeline_and_leaves_nothing(
    site: LocalWeb, commands: Commands, tmp_path: Path
) -> None:
    commands.project = project = site_project(tmp_path / "project", site.url(SITE))
    before = set(project.rglob("*"))
    output = commands.run("check", "-s", "LOG_ENABLED=1", "-L", "INFO")
    assert "Enabled item pipelines:\n[]\n" in output and output.rstrip().endswith("OK")
    assert {path for path in project.rglob("*") if "__pycache__" not in path.parts} == before
    # as in Scrapy, the command line puts one back
    commands.run("check", "-s", 'ITEM_PIPELINES={"checked.good.Opened": 1}')
    assert (project / "opened").exists()
