"""All pages, as the routes of the dashboard name them: for screen readers, on phones, and by keyboard alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.dashboard.site import OF_LOOKS, Dashboard, axe_findings, narrow
from webcrawl.web.pages import PAGES

OpenPage = Callable[..., Any]

OTHER_ANSWERS = {
    "/crawls/{crawl}/history",
    "/crawls/{crawl}/downloads/file",
    "/crawls/{crawl}/log/file",
    "/crawls/{crawl}/url/body",
}
"""Routes that answer with JSON, a file, or the page of another site."""
QUERIES = {
    # a few rows are as accessible as many
    "/crawls/{crawl}/pages": "?depth=0",
    "/jobs/{job}/records": "?iteration=9",
    "/jobs/{job}/stuck": "?iteration=5",
    "/crawls/{crawl}/hosts/host": "?host={host}",
    "/crawls/{crawl}/url": "?url={page}",
    "/crawls/{crawl}/url/text": "?url={page}",
    "/crawls/{crawl}/url/links": "?url={page}",
    "/crawls/{crawl}/url/archive": "?url={page}",
    "/crawls/{crawl}/url/resources": "?url={page}",
}
"""The queries of routes that show nothing without one, or too much to look at."""


def addresses() -> list[str]:
    """An address of each page."""
    routes = [route for page in PAGES for route in page.routes(cast("Any", None))]
    shown = {route.path for route in routes if "GET" in (route.methods or ())} - OTHER_ANSWERS
    return sorted(path + QUERIES.get(path, "") for path in shown)


@pytest.mark.parametrize("path", addresses())
def test_each_page_is_accessible_and_fits_a_phone(open_page: OpenPage, scene: Any, path: str) -> None:
    page = open_page("", scene.address(path))
    why = f"a route without a page needs its query in QUERIES, or belongs to OTHER_ANSWERS: {path}"
    assert page.locator("h1").count() == 1 and page.locator("h1").inner_text() != "Not found", why
    check_looks(page)
    for cell in page.locator(".scroll:not(.log) > .data tbody td:visible").all()[:20]:
        assert cell.get_attribute("data-label"), cell.inner_text()
    assert page.locator("table.data").evaluate_all("all => all.every((each) => each.scrollWidth <= 360)")


def test_the_login_is_accessible_and_fits_a_phone(
    start_dashboard: Callable[..., Dashboard], open_page: OpenPage, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("operator operator-0123456789\n")
    tokens.chmod(0o600)
    page = open_page("/", start_dashboard("--tokens", str(tokens)).url)
    assert page.locator("h1").inner_text() == "Log in"
    check_looks(page)


def check_looks(page: Any) -> None:
    """Runs axe-core on a page in light on a wide screen, and for its looks in the dark on a phone.

    Fails on each finding.
    """
    findings = axe_findings(page)
    assert not findings, findings
    narrow(page)
    findings = axe_findings(page, rules=OF_LOOKS)
    assert not findings, findings


FOCUS = """() => {
  const focused = document.activeElement;
  const outlined = (part) => part && getComputedStyle(part).outlineStyle === "solid";
  const name = focused === document.body ? null : nameOf(focused);
  return [name, [focused, focused.parentElement].some(outlined)];
}"""
NAMES = """() => {
  window.nameOf = (part) => {
    const name = part.name || part.getAttribute("href") || part.ariaLabel || part.textContent.trim();
    return `${part.localName} ${name}`;
  };
  const parts = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
  const seen = [...document.querySelectorAll(parts)].filter((part) => part.checkVisibility());
  return seen.map(nameOf);
}"""


def tabbed(page: Any) -> list[str]:
    """What the Tab key reaches on a page, once round; fails if it shows no focus, or never comes round."""
    met: list[str] = []
    for _ in range(400):
        page.keyboard.press("Tab")
        name, outlined = page.evaluate(FOCUS)
        if name is None or (met and name == met[0]):
            return met
        assert outlined, f"{name} does not show that it has the focus"
        met.append(name)
    raise AssertionError(f"a trap: {met[-5:]}")


def press(page: Any, name: str, key: str) -> None:
    """Goes to something by Tab and presses a key."""
    for _ in range(400):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == name:
            page.keyboard.press(key)
            return
    raise AssertionError(f"{name} is not reached")


@pytest.mark.parametrize("path", ["/crawls/{crawl}", "/crawls/{crawl}/hosts", "/jobs/{job}"])
def test_the_keyboard_reaches_everything(open_page: OpenPage, scene: Any, path: str) -> None:
    page = open_page("", scene.address(path))
    wanted = page.evaluate(NAMES)
    met = tabbed(page)
    assert met[0] == "a #main" and set(wanted) <= set(met), set(wanted) - set(met)
    page.reload()
    press(page, "Skip to the page", "Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_actions_obey_the_keyboard(open_page: OpenPage, scene: Any) -> None:
    page = open_page("", scene.address("/crawls/{crawl}"))
    press(page, "What the words mean", "Space")
    page.get_by_text("URLs that workers have now", exact=True).wait_for()
    press(page, "Pause", "Enter")
    page.get_by_text("Crawl broad is paused").wait_for()
    press(page, "Resume", "Space")
    page.get_by_text("Crawl broad goes on").wait_for()
    page.goto(scene.address("/crawls/{crawl}/hosts"))
    press(page, "Host", "Enter")
    page.locator("thead th[aria-sort=ascending]", has_text="Host").wait_for()


STREAM = """window.EventSource = class {
  constructor() { window.stream = this; }
  static CLOSED = 2;
  close() {}
};"""
NEWS = """(html) => stream.onmessage({ data: JSON.stringify({ latest: html }) })"""


def test_a_part_that_somebody_uses_waits_for_news(open_page: OpenPage, scene: Any) -> None:
    """The stream is the test's, so that news come at the moment that it chooses: between two links of one part."""
    page = open_page("", scene.address("/crawls/{crawl}"))
    page.context.add_init_script(STREAM)
    page.reload()
    links = "".join(f'<a href="#{name}">{name}</a> ' for name in ("first", "second"))
    page.evaluate(NEWS, links)
    part = page.locator("#latest")
    part.get_by_text("first").focus()
    page.evaluate(NEWS, "newer")
    page.keyboard.press("Tab")
    # with a limit of time, as a script without an end would hold a plain call of the page for ever
    page.wait_for_function("document.activeElement.textContent === 'second'")
    assert part.inner_text() == "first second"
    page.keyboard.press("Tab")
    part.get_by_text("newer", exact=True).wait_for()
