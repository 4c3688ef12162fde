"""The form that starts crawls: a real crawl that outlives the dashboard, its stop, and what the form refuses."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.site import START_SECONDS, Dashboard, narrow
from tests.dashboard.test_access import ask, cookie_of, form_token
from tests.processes import is_alive
from tests.web import ANY, Hit, LocalWeb, Reply

SITE = "127.0.1.1"
Start = Callable[..., Dashboard]


@pytest.fixture
def crawl_id(tmp_path: Path) -> Iterator[str]:
    """A CRAWL_ID of its own; processes of this crawl that are left at the end are killed."""
    crawl = f"form-{os.getpid()}-{time.monotonic_ns()}"
    yield crawl
    for pid in workers_of(crawl):
        os.kill(pid, signal.SIGKILL)


def workers_of(crawl: str) -> list[int]:
    """The processes that run a crawl, by the CRAWL_ID in their command lines."""
    mark, pids = f"\0CRAWL_ID={crawl}\0".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "cmdline").read_bytes() and is_alive(int(folder.name)):
                pids.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return pids


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Sender:
    """Sends forms like a browser that has opened the form, also fields that the form does not have."""

    def __init__(self, url: str, path: str = "/start") -> None:
        self.url = url
        _, headers, self.html = ask(url + path)
        self.cookie, self.token = cookie_of(headers), form_token(self.html)

    def value(self, name: str) -> str:
        """The value of a hidden field."""
        match = re.search(rf'name="{name}" value="([^"]*)"', self.html)
        assert match, self.html
        return match[1]

    def send(self, path: str, **fields: str) -> tuple[int, str]:
        status, headers, html = ask(
            self.url + path, {"token": self.token, "spider": "broad", **fields}, Cookie=self.cookie
        )
        return status, unescape(html) + str(headers["Location"] or "")


def test_a_crawl_of_the_form_outlives_the_dashboard(
    local_web: Callable[..., LocalWeb],
    start_dashboard: Start,
    open_page: Callable[..., Any],
    check_accessible: Callable[[Any], None],
    tmp_path: Path,
    crawl_id: str,
) -> None:
    web = local_web(SITE)
    ended = threading.Event()

    def endless(hit: Hit) -> Reply:
        number = len(web.log(SITE))
        return Reply(f"page {number}" if ended.is_set() else f'page {number} <a href="/{number}">next</a>')

    web.put(SITE, ANY, endless)
    dashboard = start_dashboard(DOWNLOAD_DELAY=0.2, SOFT_404=False)
    page = open_page("/", dashboard.url)
    page.get_by_role("link", name="Start a crawl").click()

    page.get_by_label("URLs to start from").fill("@/etc/passwd\nfile:///etc/passwd\n")
    page.get_by_label("Most pages", exact=True).fill("many")
    page.get_by_label("Name of the crawl").fill("../other")
    page.get_by_label("Time zone").fill("Paris")
    page.get_by_role("button", name="Check").click()
    page.get_by_role("alert").wait_for()
    problems = page.get_by_role("alert").get_by_role("listitem").all_inner_texts()
    for part in ("'@/etc/passwd' is not", "'file:///etc/passwd' is not", "'many'", "'../other'", "'Paris'"):
        assert [part in problem for problem in problems].count(True) == 1, problems
    named = {problem.partition(": ")[0] for problem in problems}
    assert named == {"URLs to start from", "Most pages", "Name of the crawl", "Time zone", "Schedule"}
    assert page.get_by_label("Most pages", exact=True).get_attribute("aria-invalid") == "true"
    page.get_by_text("More settings").click()
    check_accessible(page)
    narrow(page)

    # the keyboard alone
    page.get_by_label("URLs to start from").fill(web.url(SITE))
    page.get_by_label("Most pages", exact=True).fill("10000")
    page.get_by_label("Name of the crawl").fill(crawl_id)
    page.get_by_label("Time zone").fill("")
    page.get_by_label("Follow links").select_option("host")
    page.get_by_role("button", name="Check").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=f"Start crawl {crawl_id}").wait_for()
    command = page.locator("pre.command").inner_text()
    words = f" crawl {web.url(SITE)} --scope host --crawl {crawl_id} "
    assert words in command and "--max-pages 10000" in command and str(tmp_path / "data") in command
    check_accessible(page)
    narrow(page)
    page.keyboard.press("Tab")
    for _ in range(100):
        if page.evaluate("document.activeElement.innerText") == "Start now":
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/crawls/{crawl_id}**")
    page.get_by_text(f"Crawl {crawl_id} has started.").wait_for()
    while web.url(SITE) not in page.get_by_role("region", name="Seeds and settings").inner_text():
        page.wait_for_timeout(200)  # the worker tells its seeds once it has read them
        page.reload()

    status, html = Sender(dashboard.url).send("/start/run", seeds=web.url(SITE), crawl=crawl_id)
    assert status == 422 and f"crawl '{crawl_id}' is running" in html and len(workers_of(crawl_id)) == 1
    page.close()
    dashboard.process.kill()
    before = len(web.log(SITE))
    wait_until(lambda: len(web.log(SITE)) > before + 3)
    ended.set()
    wait_until(lambda: not workers_of(crawl_id))
    logs = tmp_path / "data" / "logs"
    assert "Spider closed (finished)" in (logs / f"{crawl_id}-0.log").read_text()
    assert (logs / f"{crawl_id}.out").stat().st_mode & 0o007 == 0


def test_a_crawl_of_the_form_is_stopped_continued_and_killed(
    local_web: Callable[..., LocalWeb], start_dashboard: Start, open_page: Callable[..., Any], crawl_id: str
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "".join(f'<a href="/{number}">{number}</a>' for number in range(50)))
    dashboard = start_dashboard(DOWNLOAD_DELAY=60)
    sender = Sender(dashboard.url)
    status, html = sender.send("/start/run", seeds=web.url(SITE), crawl=crawl_id)
    assert status == 303 and f"/crawls/{crawl_id}" in html, html
    page = open_page(f"/crawls/{crawl_id}", dashboard.url)
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Stop").click()
    wait_until(lambda: not workers_of(crawl_id))
    page.reload()
    page.get_by_role("button", name="Start again").click()
    assert page.get_by_label("URLs to start from").input_value() == web.url(SITE)
    assert page.get_by_label("Delay", exact=True).input_value() == "60"
    page.get_by_role("button", name="Check").click()
    page.get_by_text(f"There is a crawl {crawl_id} (stopped)").wait_for()
    page.get_by_role("button", name="Start now").click()
    page.wait_for_url(f"**/crawls/{crawl_id}**")
    (pid,) = workers_of(crawl_id)
    os.kill(pid, signal.SIGKILL)
    # the dashboard, its parent, has read its exit status
    wait_until(lambda: not Path(f"/proc/{pid}").exists())
    assert ask(f"{dashboard.url}/crawls/{crawl_id}")[0] == 200


def test_the_form_takes_nothing_that_names_code_or_files(
    local_web: Callable[..., LocalWeb], start_dashboard: Start, tmp_path: Path, crawl_id: str
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "one page")
    dashboard = start_dashboard()
    sender = Sender(dashboard.url)
    mark = tmp_path / "mark"
    attack = {
        "DATA_DIR": str(mark),
        "STORE_URI": f"file://{mark}",
        "ITEM_PIPELINES": '{"os.system": 1}',
        "RENDER_BROWSER": f"touch {mark}",
        "URL_ALLOW": "(a+)+$",
        "settings": "ITEM_PIPELINES={}",
        "arguments": "x",
        "notify": f"file://{mark}",
        "checkpoints": str(mark),
        "nodes": "http://127.0.0.1:9",
        "folder": str(mark),
    }
    status, html = sender.send("/start/check", seeds=f"{web.url(SITE)}?-s=;touch {mark}", **attack)
    shown = re.findall(r"<pre.*?</pre>", html, re.DOTALL)
    assert status == 200 and len(shown) == 2
    for name in attack:
        assert f" {name}" not in shown[0].replace("DATA_DIR", "") and f"\n{name}:" not in shown[1]
    assert f"touch%20{mark}" in shown[0]
    for wrong in (
        {"spider": "../broad"},
        {"spider": "--version"},
        {"seeds": f"@{mark}"},
        {"seeds": "-o /tmp/x"},
        {"scope": "/etc"},
        {"crawl": "a/b"},
        {"CRAWL_MAX_PAGES": "9" * 5000},
        {"TEXT": "wet,/etc"},
        {"ALLOWED_DOMAINS": "[" * 5000},
        {"cron": "* * * * * *"},
        {"cron": "0 6 * * *", "timezone": "/etc/passwd"},
        {"cron": "0 6 * * *", "timezone": "../../../etc/passwd"},
        {"cron": "0 6 * * *", "name": "../x"},
        {"cron": "0 6 * * *", "keep": "0"},
        {"seeds": ""},
    ):
        status, html = sender.send("/start/run", **{"seeds": web.url(SITE), "crawl": crawl_id, **wrong})
        assert status == 422 and 'class="problem"' in html, (wrong, status)
    for path in ("/start/check", "/start/save"):
        assert sender.send(path, seeds=f"@{mark}", cron="0 6 * * *")[0] == 422
    assert not mark.exists() and not workers_of(crawl_id) and not web.paths(SITE)
    assert not (tmp_path / "data" / "metadata.db").exists()


def test_only_operators_start_crawls(start_dashboard: Start, crawl_id: str) -> None:
    dashboard = start_dashboard("--read-only")
    assert 'href="/start"' not in ask(f"{dashboard.url}/")[2]
    status, headers, _ = ask(f"{dashboard.url}/start")
    assert status == 403
    fields = {"seeds": "http://127.0.0.1:9/", "spider": "broad", "crawl": crawl_id, "token": "x"}
    for path in ("check", "change", "run", "save"):
        status, _, html = ask(f"{dashboard.url}/start/{path}", fields, Cookie=cookie_of(headers))
        assert status == 403 and "reader" in html
    assert not workers_of(crawl_id)


def test_forms_of_other_sites_start_nothing(start_dashboard: Start, crawl_id: str) -> None:
    dashboard = start_dashboard()
    sender = Sender(dashboard.url)
    fields = {"seeds": "http://127.0.0.1:9/", "spider": "broad", "crawl": crawl_id}
    url, form = f"{dashboard.url}/start/run", fields | {"token": sender.token}
    assert ask(url, form, Cookie=sender.cookie, Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(url, form, Cookie=sender.cookie, Origin="http://evil.example")[0] == 403
    assert ask(url, fields | {"token": "wrong"}, Cookie=sender.cookie)[0] == 403
    assert ask(url, form)[0] == 403
    assert ask(url)[0] == 405
    assert not workers_of(crawl_id)
