"""The log of a crawl: its lines by level and text, its files, and who may see them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.site import ATTACK, CrawledSite, Dashboard, until_shown
from tests.dashboard.test_access import ask

OpenPage = Callable[..., Any]


@pytest.fixture
def log(site: CrawledSite) -> Path:
    """A second log file of the crawl, beside that of its worker."""
    path = site.data_dir / "logs" / "broad-7.log"
    path.write_text(
        f"2026-02-03 12:00:00 [webcrawl.test] ERROR: {ATTACK}\n"
        "2026-02-03 12:00:01 [webcrawl.test] WARNING: http://me:secret@proxy.test refused\n"
    )
    return path


def test_the_log_of_a_worker_is_shown_by_level_and_text(
    open_page: OpenPage, site: CrawledSite, log: Path
) -> None:
    page = open_page("/crawls/broad/log")
    lines = page.get_by_role("region", name="Lines of the log")
    shown = lines.inner_text()
    assert "Closing spider (finished)" in shown, "what the worker has written"
    assert ATTACK in shown and "secret" not in shown
    page.get_by_label("Level").select_option("warning and above")
    with page.expect_navigation():
        page.get_by_role("button", name="Show").click()
    assert "Closing spider" not in lines.inner_text() and "proxy.test refused" in lines.inner_text()
    with log.open("a") as file:
        file.write("2026-02-03 12:00:02 [webcrawl.test] INFO: calm\n")
        file.write("2026-02-03 12:00:03 [webcrawl.test] ERROR: it is live\n")
    until_shown(lambda: "it is live" in lines.inner_text(), site.dashboard.process)
    assert "calm" not in lines.inner_text(), "live lines are of the chosen level too"
    page.get_by_label("Contains").fill("REFUSED")
    with page.expect_navigation():
        page.get_by_role("button", name="Show").click()
    assert lines.locator("tbody tr").count() == 1


def test_a_file_is_downloaded_without_passwords(site: CrawledSite, log: Path) -> None:
    status, headers, text = ask(f"{site.url}/crawls/broad/log/file?name={log.name}")
    assert status == 200 and "http://...@proxy.test" in text and "secret" not in text
    assert headers["Content-Disposition"] == f'attachment; filename="{log.name}"'
    assert headers["Content-Type"].startswith("text/plain")
    for name in ("../metadata.db", "other-0.log", ".broad-0.log.lock", ""):
        assert ask(f"{site.url}/crawls/broad/log/file?name={name}")[0] == 404


def test_readers_do_not_see_it(
    start_dashboard: Callable[..., Dashboard], site: CrawledSite, log: Path
) -> None:
    dashboard = start_dashboard("--read-only", data_dir=site.data_dir)
    for path in ("/crawls/broad/log", f"/crawls/broad/log/file?name={log.name}", "/live/log?crawl=broad"):
        status, _, text = ask(dashboard.url + path)
        assert status == 403 and "refused" not in text, path
    assert "/log" not in ask(f"{dashboard.url}/crawls/broad")[2]
