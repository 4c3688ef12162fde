"""robots.txt and page directives: our cases, and Google's conformance cases if they are next to the checkout."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgpack
import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.errors import StoreError
from webcrawl.hosts.robots import MAX_BYTES, RobotsCache, RobotsPolicy, product_token, robots_url
from webcrawl.hosts.robots_directives import Directives, directives

HOST = "https://example.org"
US = "webcrawl/0.1 (+https://example.org/bot)"


def policy(body: str | bytes, status: int | None = 200) -> RobotsPolicy:
    raw = body.encode() if isinstance(body, str) else body
    return RobotsPolicy.from_response(status, raw, url=robots_url(HOST))


def allows(body: str | bytes, path: str, user_agent: str = US) -> bool:
    return policy(body).allows(HOST + path, user_agent)


@cases(
    ("status", "verdict", "ttl"),
    [
        (200, "parsed", 86400),
        (204, "parsed", 86400),
        (302, "allow-all", 86400),
        (401, "allow-all", 86400),
        (404, "allow-all", 86400),
        (410, "allow-all", 86400),
        (429, "disallow-all", 300),
        (500, "disallow-all", 300),
        (503, "disallow-all", 300),
        (None, "disallow-all", 300),
    ],
)
def test_status_takes_precedence_over_the_body(status: int | None, verdict: str, ttl: float) -> None:
    found = policy("User-agent: *\nDisallow: /private", status)
    assert (found.verdict, found.ttl) == (verdict, ttl)
    assert found.allows(f"{HOST}/private", US) is (verdict == "allow-all")
    assert found.allows(f"{HOST}/public", US) is (verdict != "disallow-all")
    assert found.allows(f"{HOST}/robots.txt", US)


@cases(
    ("header", "token"),
    [
        (US, "webcrawl"),
        ("WebCrawl", "webcrawl"),
        ("Mozilla/5.0 (compatible; webcrawl/0.1; +https://example.org)", "webcrawl"),
        ("Mozilla/5.0 (X11; Linux)", "mozilla"),
        ("my_bot-2/1.0", "my_bot-2"),
        ("", ""),
    ],
)
def test_product_token_is_taken_from_the_user_agent(header: str, token: str) -> None:
    assert product_token(header) == token


@cases("named", ["webcrawl", "WEBCRAWL", "webcrawl/2.0", "webcrawl some words", "webcrawl*"])
def test_group_matches_our_token_in_any_spelling(named: str) -> None:
    assert not allows(f"User-agent: {named}\nDisallow: /", "/x")


@cases("named", ["web", "crawl", "webcrawler", "other", "*crawl", "", "é"])
def test_group_of_another_agent_does_not_apply(named: str) -> None:
    assert allows(f"User-agent: {named}\nDisallow: /", "/x")


def test_our_groups_are_merged_and_replace_the_wildcard_group() -> None:
    text = "User-agent: *\nDisallow: /a\n\nUser-agent: webcrawl\nDisallow: /b\n\nUser-agent: Webcrawl\nDisallow: /c"
    assert [allows(text, path) for path in ("/a", "/b", "/c")] == [True, False, False]
    assert [allows(text, path, "other/1") for path in ("/a", "/b", "/c")] == [False, True, True]


def test_unknown_records_are_ignored() -> None:
    text = "User-agent: webcrawl\nContent-Signal: search=yes\nUser-agent: other\nDisallow: /x"
    assert not allows(text, "/x")


def test_longest_rule_wins_and_allow_wins_a_tie() -> None:
    text = "User-agent: *\nDisallow: /a\nAllow: /a/b\nDisallow: /a/b/c\nAllow: /t\nDisallow: /t\nDisallow: /*.php$"
    verdicts = {path: allows(text, path) for path in ("/a", "/a/b", "/a/b/c", "/t", "/x.php", "/x.php?q")}
    assert verdicts == {
        "/a": False,
        "/a/b": True,
        "/a/b/c": False,
        "/t": True,
        "/x.php": False,
        "/x.php?q": True,
    }


@cases("end", ["\n", "\r", "\r\n"])
@cases("mark", [b"", b"\xef\xbb\xbf", b"\xef\xbb"])
def test_line_ends_and_byte_order_marks_are_handled(mark: bytes, end: str) -> None:
    assert not allows(mark + f"User-agent: *{end}{end}Disallow: /x # why{end}".encode(), "/x")


def test_non_utf_8_octets_match_their_escapes() -> None:
    body = b"User-agent: *\nDisallow: /caf\xe9\nDisallow: /th\xc3\xa9\nDisallow: /a\x85b\nDisallow: /a\x0cb\n"
    assert not allows(body, "/caf%E9")
    assert allows(body, "/caf%E8"), "another octet"
    assert not allows(body, "/th%C3%A9")
    assert allows(body, "/a"), "0x85 and 0x0C are not line ends"


def test_utf_16_with_byte_order_mark_is_read() -> None:
    assert not allows("User-agent: *\r\nDisallow: /x".encode("utf-16"), "/x")


def test_long_body_is_cut_at_a_line_end() -> None:
    head = b"User-agent: *\nDisallow: /first\n"
    filler = b"#" * (MAX_BYTES - len(head) - len(b"\nDisallow: /a")) + b"\n"
    body = head + filler + b"Disallow: /abc\n"
    assert not allows(body, "/first")
    assert allows(body, "/a/page"), "a rule cut in half would disallow too much"
    assert allows(b"Disallow: /" * MAX_BYTES, "/x")


@cases(
    ("lines", "delay"),
    [
        ("Crawl-delay: 2.5", 2.5),
        ("Crawl-delay: 0", 0.0),
        ("Request-rate: 1/10", 10.0),
        ("Request-rate: 2/1m", 30.0),
        ("Crawl-delay: 1\nRequest-rate: 1/5", 5.0),
        ("Crawl-delay: soon", None),
        ("Crawl-delay: -1", None),
        ("Crawl-delay: nan", None),
        ("Crawl-delay: 1e999", None),
        ("Request-rate: 1/0", None),
        ("Request-rate: 1/" + "9" * 400, None),
        ("Disallow: /x", None),
    ],
)
def test_crawl_delay_is_parsed_to_seconds(lines: str, delay: float | None) -> None:
    assert policy(f"User-agent: *\n{lines}").crawl_delay(US) == delay
    assert policy(f"User-agent: other\n{lines}").crawl_delay(US) is None


def test_sitemaps_are_absolute_and_unique() -> None:
    text = "Sitemap: https://example.org/a.xml\nUser-agent: *\nSITEMAP: /b.xml\nSitemap: ftp://example.org/c.xml\n"
    found = policy(
        text + "Sitemap: https://example.org/a.xml\nSitemap: http://[broken\nSitemap: é.xml"
    ).sitemaps
    assert found == (
        "https://example.org/a.xml",
        "https://example.org/b.xml",
        "https://example.org/%C3%A9.xml",
    )


@given(st.binary(max_size=200), st.sampled_from([200, 404, 500, None]))
def test_any_policy_survives_serialization(body: bytes, status: int | None) -> None:
    original = policy(b"User-agent: *\nDisallow: /x\n" + body, status)
    again = RobotsPolicy.from_bytes(original.to_bytes())
    assert again == original
    assert again.allows(f"{HOST}/x", US) is original.allows(f"{HOST}/x", US)


@given(st.binary(max_size=100))
def test_damaged_data_raises_a_store_error(noise: bytes) -> None:
    whole = policy("User-agent: *\nDisallow: /x\n").to_bytes()
    for data in (noise, whole + noise + b"\0", whole[: len(noise) % len(whole)]):
        with pytest.raises(StoreError):
            RobotsPolicy.from_bytes(data)


@cases(
    "content",
    [[2, "parsed", "", b""], [1, "maybe", "", b""], [1, "parsed", 7, b""], [1, "parsed", "", b"x"], {}, 1],
)
def test_unknown_data_raises_a_store_error(content: object) -> None:
    with pytest.raises(StoreError):
        RobotsPolicy.from_bytes(msgpack.packb(content))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_cache_evicts_expired_and_least_recently_used_policies() -> None:
    clock = Clock()
    cache = RobotsCache(max_hosts=2, clock=clock)
    open_to_all, unreachable = policy("", 404), policy("", None)
    cache.put("a", open_to_all)
    cache.put("b", unreachable)
    assert cache.get("a") is open_to_all
    cache.put("c", open_to_all, ttl=50)
    assert cache.get("b") is None, "a was used more recently than b"
    clock.now += 49
    assert cache.get("c") is open_to_all
    clock.now += 1
    assert cache.get("c") is None
    clock.now += 86400
    assert cache.get("a") is None
    assert len(cache) == 0


def test_cache_is_bounded_by_the_size_of_rules() -> None:
    large = policy("User-agent: *\n" + "Disallow: /x\n" * 100)
    cache = RobotsCache(max_characters=3 * len(large.rules))
    for number in range(10):
        cache.put(str(number), large)
        cache.put(str(number), large)
    assert len(cache) == 3
    assert cache.get("9") is large


NOW = datetime(2025, 6, 25, 12, tzinfo=UTC)


@cases(
    ("headers", "expected"),
    [
        ([], Directives()),
        (["noindex"], Directives(noindex=True)),
        (["NoIndex , nofollow"], Directives(noindex=True, nofollow=True)),
        (["none"], Directives(noindex=True, nofollow=True)),
        (["noindex nofollow"], Directives(noindex=True, nofollow=True)),
        (["index  noarchive\tnofollow, follow"], Directives(nofollow=True, noarchive=True)),
        (["otherbot: noindex nofollow"], Directives()),
        (["noarchive"], Directives(noarchive=True)),
        (["index, follow, max-snippet: 20, all"], Directives()),
        (["max-snippet: 20, noindex"], Directives(noindex=True)),
        (["otherbot: noindex"], Directives()),
        (["webcrawl: noindex", "nofollow"], Directives(noindex=True, nofollow=True)),
        (["otherbot: noindex, nofollow, webcrawl: noarchive"], Directives(noarchive=True)),
        (["unavailable_after: 25 Jun 2025 11:59:59 GMT"], Directives(noindex=True)),
        (
            ["unavailable_after: Wed, 25 Jun 2025 11:59:59 GMT, nofollow"],
            Directives(noindex=True, nofollow=True),
        ),
        (["unavailable_after: Wednesday, 25-Jun-25 04:00:00 PST"], Directives(noindex=True)),
        (["unavailable_after: 2025-06-25"], Directives(noindex=True)),
        (["unavailable_after: 2025-06-26T00:00:00+00:00"], Directives()),
        (["webcrawl: unavailable_after: 2025-06-24"], Directives(noindex=True)),
        (["otherbot: unavailable_after: 2025-06-24"], Directives()),
        (["unavailable_after: some day"], Directives()),
        (["unavailable_after:", "", ",,:,"], Directives()),
    ],
)
def test_x_robots_tag_is_parsed(headers: list[str], expected: Directives) -> None:
    assert directives(headers, [], US, now=NOW) == expected


def test_meta_tags_for_all_and_for_us_combine_with_the_header() -> None:
    meta = [("ROBOTS", "noindex"), ("webcrawl", "nofollow"), ("otherbot", "none"), ("viewport", "noarchive")]
    assert directives([], meta, US) == Directives(noindex=True, nofollow=True)
    assert directives(["noarchive"], meta, US) == Directives(noindex=True, nofollow=True, noarchive=True)
    assert directives([], meta, "otherbot") == Directives(noindex=True, nofollow=True)


@given(st.text(max_size=60))
def test_any_header_is_parsed_without_error(value: str) -> None:
    assert isinstance(directives([value, f"unavailable_after: {value}"], [(value, value)], US), Directives)


CONFORMANCE = Path(__file__).parents[4] / "shared" / "data" / "robotstxt"

# (last line of robots.txt, URL, user agent): why we deviate on purpose
KNOWN_DIFFERENCES = {
    (
        "Allow: /foo/bar/ツ",
        "http://foo.bar/foo/bar/ツ",
        "FooBot",
    ): "URLs reach us normalised; an escape is the same octet",
    ("Allow: /foo/bar/%E3%83%84", "http://foo.bar/foo/bar/ツ", "FooBot"): "the same",
    (
        "Allow: /foo/bar/%62%61%7A",
        "http://foo.bar/foo/bar/baz",
        "FooBot",
    ): "RFC 9309 2.2.2 decodes unreserved octets",
    ("Disallow: /", "http://foo.bar/x/y", "Foo Bar"): "a whole header is given: its product token is Foo",
}

_FIELD = re.compile(
    rb'^\s*(robotstxt|testurl|useragent|expected_outcome):\s*((?:\s*"(?:[^"\\]|\\.)*")+|\w+)', re.MULTILINE
)
_STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"')


def _text(literals: bytes) -> bytes:
    """Decodes adjacent protobuf string literals, whose escapes equal Python's."""
    pieces = (
        piece.decode("latin-1").encode("ascii", "backslashreplace") for piece in _STRING.findall(literals)
    )
    return b"".join(ast.literal_eval(f'b"{piece.decode()}"') for piece in pieces)


def _cases(file: Path) -> Iterator[tuple[bytes, str, str, bool]]:
    robotstxt, url, agent = b"", "", ""
    for field, value in _FIELD.findall(file.read_bytes()):
        if field == b"robotstxt":
            robotstxt = _text(value)
        elif field == b"testurl":
            url = _text(value).decode()
        elif field == b"useragent":
            agent = _text(value).decode()
        else:
            yield robotstxt, url, agent, value == b"ALLOWED"


def test_conformance_cases_pass_except_known_differences() -> None:
    cases = [case for file in sorted(CONFORMANCE.glob("*.textproto")) for case in _cases(file)]
    different = {
        (body.decode().splitlines()[-1], url, agent)
        for body, url, agent, expected in cases
        if RobotsPolicy.from_response(200, body, url="http://foo.bar/robots.txt").allows(url, agent)
        != expected
    }
    assert different == (set(KNOWN_DIFFERENCES) if cases else set())
    assert len(cases) in (0, 146)
