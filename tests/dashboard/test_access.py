"""Who may see the dashboard and act: tokens, roles, other sites, other host names."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPMessage
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.dashboard.site import CrawledSite, Dashboard
from webcrawl.errors import ConfigurationError
from webcrawl.web.access import Access, Role, WrongTokens, is_loopback, read_tokens
from webcrawl.web.notices import from_page, with_notice

OPERATOR, READER = "operator-0123456789", "reader-0123456789abc"


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def ask(url: str, form: dict[str, str] | None = None, **headers: str) -> tuple[int, HTTPMessage, str]:
    """The status, headers and text of one request; redirects are not followed."""
    data = None if form is None else urlencode(form).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data, {"Accept": "text/html", **named})
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def form_token(html: str) -> str:
    match = re.search(r'name="token" value="([^"]+)"', html)
    assert match, html
    return match[1]


def cookie_of(headers: HTTPMessage) -> str:
    return str(headers["Set-Cookie"]).partition(";")[0]


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "tokens"
    path.write_text(f"# who\noperator {OPERATOR}\n\nreader {READER}\n")
    path.chmod(0o600)
    return path


def test_headers_allow_nothing_from_elsewhere(site: CrawledSite) -> None:
    status, headers, _ = ask(f"{site.url}/")
    policy = headers["Content-Security-Policy"]
    assert status == 200 and "default-src 'none'" in policy and "unsafe" not in policy
    assert headers["X-Frame-Options"] == "DENY" and headers["X-Content-Type-Options"] == "nosniff"
    assert "HttpOnly" in headers["Set-Cookie"] and "samesite=strict" in headers["Set-Cookie"].lower()
    _, headers, _ = ask(f"{site.url}/nowhere")
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_other_host_names_are_refused(site: CrawledSite) -> None:
    assert [
        ask(f"{site.url}/", Host=name)[0]
        for name in ("evil.example", "evil.example:80", "127.0.0.1.evil", "")
    ] == [421] * 4
    assert [ask(f"{site.url}/", Host=name)[0] for name in ("localhost:1", "[::1]:2", "127.0.0.1")] == [
        200
    ] * 3


def test_forms_of_other_sites_change_nothing(site: CrawledSite) -> None:
    url = f"{site.url}/crawls/broad/pause"
    _, headers, html = ask(f"{site.url}/crawls/broad")
    cookie, token = cookie_of(headers), form_token(html)
    assert ask(url, {"token": token}, Cookie=cookie, Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(url, {"token": token}, Cookie=cookie, Origin="http://evil.example")[0] == 403
    assert ask(url, {"token": "wrong"}, Cookie=cookie)[0] == 403
    assert ask(url, {}, Cookie=cookie)[0] == 403
    assert ask(url, {"token": token})[0] == 403, "the token is of another visitor"
    assert ask(url)[0] == 405
    assert ask(url, {"token": token, "long": "x" * 70_000}, Cookie=cookie)[0] == 413
    assert '"paused' not in ask(f"{site.url}/crawls/broad")[2]


def test_a_token_is_asked_for_and_its_role_counts(
    tokens: Path, start_dashboard: Callable[..., Dashboard], redis_url: str, open_page: Callable[..., Any]
) -> None:
    dashboard = start_dashboard("--tokens", str(tokens), REDIS_URL=redis_url)
    status, headers, _ = ask(f"{dashboard.url}/crawls/x?a=1")
    assert status == 303 and headers["Location"] == "/login?next=/crawls/x%3Fa%3D1"
    assert ask(f"{dashboard.url}/live/crawls", Accept="text/event-stream")[0] == 401
    page = open_page("/", dashboard.url)
    page.get_by_label("Token").fill("wrong-0123456789abcd")
    with page.expect_response("**/login") as answer:
        page.get_by_role("button", name="Log in").click()
    assert answer.value.status == 401 and page.get_by_role("alert").inner_text() == "This token is wrong."
    page.get_by_label("Token").fill(READER)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(f"{dashboard.url}/")
    assert page.locator(".visitor .badge").inner_text() == "read-only"
    cookies = "; ".join(f"{one['name']}={one['value']}" for one in page.context.cookies())
    status, _, html = ask(f"{dashboard.url}/crawls/x/pause", {"token": "x"}, Cookie=cookies)
    assert status == 403 and "Your role is that of a reader" in html
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url("**/login")


def test_another_address_needs_a_token(tokens: Path) -> None:
    with pytest.raises(ConfigurationError, match="--tokens"):
        Access.for_address("0.0.0.0", None)
    access = Access.for_address("0.0.0.0", tokens, ("crawls.example.org",))
    assert not access.is_open and access.allows_host("crawls.example.org:443")
    assert (access.role_of(OPERATOR), access.role_of(READER)) == (Role.OPERATOR, Role.READER)
    assert access.role_of("") is None and access.role_of(OPERATOR + "x") is None
    reading = Access.for_address("0.0.0.0", tokens, read_only=True)
    assert reading.role_of(OPERATOR) is Role.READER
    assert [is_loopback(one) for one in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.1", "x")] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_cookie_is_of_one_process_and_expires() -> None:
    access = Access()
    visitor = access.admit(Role.READER, now=1000.0)
    again = access.visitor(visitor.cookie, now=2000.0)
    assert again == visitor and not again.is_operator
    assert access.visitor(visitor.cookie, now=1000.0 + 13 * 3600) is None
    assert access.visitor(visitor.cookie.replace("reader", "operator"), now=2000.0) is None
    assert Access().visitor(visitor.cookie, now=2000.0) is None
    assert [access.visitor(text) for text in ("", ".", "a.b", "\u00e9.\u00e9")] == [None] * 4


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "no token"),
        ("operator short", "line 1: a token has at least 16"),
        ("# x\nadmin 0123456789abcdef", "line 2: write"),
        ("0123456789abcdef", "line 1: write"),
    ],
)
def test_a_wrong_file_of_tokens_is_refused_with_its_line(text: str, error: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match=error):
        read_tokens(path)
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_tokens(path)
    with pytest.raises(ConfigurationError, match="cannot read"):
        read_tokens(tmp_path / "none")


def test_an_action_leads_to_own_pages_alone() -> None:
    others = (
        "",
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "javascript:1",
        "/a\nb",
        "/\tx",
        "x",
    )
    assert [from_page(one) for one in others] == ["/"] * len(others)
    assert from_page("/crawls/x?a=1&b=%2F") == "/crawls/x?a=1&b=%2F"
    assert with_notice("/x?notice=old&a=1", "new & <b>") == "/x?a=1&notice=new+%26+%3Cb%3E"


def test_wrong_tokens_are_limited_by_address_and_by_total_and_lock_no_other_out() -> None:
    now = [0.0]
    wrong = WrongTokens(lambda: now[0])

    def tries(address: str) -> int:
        """The wrong tokens that an address may send at once."""
        number = 0
        while wrong.may_try(address):
            wrong.note(address)
            number += 1
        return number

    assert [tries("192.0.2.1"), tries("2001:db8::1"), tries("2001:db8::2")] == [10, 10, 0]
    now[0] = 6.0
    assert tries("192.0.2.1") == 1
    assert [tries(f"198.51.100.{number}") for number in range(8)] == [*[10] * 7, 9]
    assert tries("203.0.113.1") == 3
    now[0] = 66.1
    assert tries("203.0.113.2") == 10
