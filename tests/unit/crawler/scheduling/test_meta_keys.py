"""Every key of Request.meta that Scrapy knows survives the frontier, or is named as one that does not."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import scrapy
from scrapy import Request, Spider

from tests.cases import cases
from tests.crawls import CHECKOUT
from webcrawl.crawler.scheduling.meta import NOT_STORED, WITHOUT_EFFECT, most_retries, recrawl_after
from webcrawl.crawler.scheduling.requests import to_candidate, to_request
from webcrawl.frontier import LeasedURL
from webcrawl.urls.canonical import Canonicalizer

KEYS: dict[str, Any] = {
    "allow_offsite": True,
    "autothrottle_dont_adjust_delay": True,
    "bindaddress": ("127.0.0.2", 0),
    "cache_timestamp": 1.5,
    "cached_response": None,
    "cookiejar": ("jar", 7),
    "depth": 3,
    "depth_reset": True,
    "dont_cache": True,
    "dont_merge_cookies": True,
    "dont_obey_robotstxt": True,
    "dont_redirect": True,
    "dont_retry": True,
    "download_fail_on_dataloss": False,
    "download_latency": 0.25,
    "download_maxsize": 1000,
    "download_slot": "together",
    "download_timeout": 7.0,
    "download_warnsize": 500,
    "ftp_local_filename": b"name",
    "ftp_passive": False,
    "ftp_password": "secret",
    "ftp_user": "me",
    "give_up_log_level": "INFO",
    "handle_httpstatus_all": True,
    "handle_httpstatus_list": [404, 503],
    "http_auth_domain": "example.org",
    "http_pass": "secret",
    "http_user": "me",
    "is_secure": False,
    "is_start_request": True,
    "link_text": "a link",
    "max_retry_times": 4,
    "priority_adjust": -2,
    "proxy": "http://127.0.0.1:3128",
    "redirect_reasons": [301, "meta refresh"],
    "redirect_times": 2,
    "redirect_ttl": 18,
    "redirect_urls": ["http://example.org/before"],
    "referrer_policy": "no-referrer",
    "retry_times": 1,
    "rule": 0,
    "verbatim_url": True,
}
"""The special keys of Scrapy 2.19, documented and read in its source, each with a value that is not its default."""

_INTERNAL = {"height", "width"}
"""Keywords of `meta=` that are not of a Request."""


def keys_in_scrapy() -> set[str]:
    """The keys of Request.meta that Scrapy's source reads, sets or documents; names with `_` are internal to it."""
    found: set[str] = set()
    for path in Path(scrapy.__file__).parent.rglob("*.py"):
        text = path.read_text()
        if "meta" in text:
            found |= set(re.findall(r"reqmeta:+[ `]+(\w+)", text))
            found |= {key for node in ast.walk(ast.parse(text)) for key in _keys_of(node)}
    return {key for key in found - _INTERNAL if not key.startswith("_")}


def _is_meta(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute | ast.Name)
        and getattr(node, "attr", getattr(node, "id", "")) == "meta"
    )


def _keys_of(node: ast.AST) -> list[str]:
    keys: list[ast.expr | None] = []
    match node:
        case ast.Subscript(value=value, slice=key) if _is_meta(value):
            keys = [key]
        case ast.Call(func=ast.Attribute(value=value), args=[key, *_]) if _is_meta(value):
            keys = [key]
        case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[value]) if _is_meta(value):
            keys = [key]
        case ast.keyword(arg="meta", value=ast.Dict(keys=keys)):
            pass
    return [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]


def test_the_list_has_every_key_of_scrapy() -> None:
    """A new key of Scrapy, and one that it has dropped, needs a decision and a line in docs/guide/requests.md."""
    assert keys_in_scrapy() == KEYS.keys()


@cases("key", KEYS)
def test_a_key_survives_the_frontier_or_is_named(key: str) -> None:
    spider, url = Spider("keys"), "http://example.org/a"
    candidate = to_candidate(Request(url, meta={key: KEYS[key]}), spider, Canonicalizer())
    restored = to_request(LeasedURL.decode(0, candidate.host, candidate.entry()), spider)
    if key in NOT_STORED and key != "depth":
        assert key not in restored.meta
    else:
        assert restored.meta[key] == KEYS[key]
        assert type(restored.meta[key]) is type(KEYS[key])


def test_the_table_in_the_documentation_has_every_key() -> None:
    text = (CHECKOUT / "docs/guide/requests.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    assert rows.keys() == KEYS.keys()
    for key, what in rows.items():
        assert what.startswith("not stored") == (key in NOT_STORED), key
        assert what.startswith("no effect") == (key in WITHOUT_EFFECT), key


@cases(
    ("after", "seconds"),
    [
        (None, None),
        (604_800, 604_800.0),
        (0, 0.0),
        (1e307, 1e9),
        (10**400, 1e9),
        (float("inf"), None),
        (float("nan"), None),
        (-1, None),
        (-(10**400), None),
        ("1 week", None),
    ],
)
def test_a_page_comes_back_after_seconds_that_every_store_takes(after: Any, seconds: float | None) -> None:
    assert recrawl_after(Request("http://a.test/", meta={"recrawl_after": after})) == seconds


def test_retries_end_although_attempts_are_counted_in_a_byte() -> None:
    assert most_retries(Request("http://a.test/", meta={"max_retry_times": 10**9}), 4) == 254
