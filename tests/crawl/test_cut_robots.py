"""A robots.txt that does not arrive whole, or leads where the crawler may not go: the host counts as disallowed."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count

from tests.crawls import CrawlResult
from tests.wire import Say, Wire, plain, running

RULES = b"User-agent: *\nDisallow: /a\n"
HOME = plain(b"<a href=/a>a</a><a href=/b>b</a><a href=/c>c</a>", b"Content-Type: text/html")
Answer = Callable[[], Say]


def cut(body: bytes, *, length: int) -> Say:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % length
    return Say([head + body], then="close")


def redirect(to: bytes) -> Say:
    return plain(b"", b"Location: " + to, status=b"301 Moved")


def site(robots: Answer) -> Wire:
    def answer(head: bytes) -> Say:
        path = head.split(b" ")[1]
        return robots() if path == b"/robots.txt" else HOME if path == b"/" else plain(path)

    return Wire([answer])


def packed_by_chance() -> Say:
    """A robots.txt in gzip that ends early, each time at another byte."""
    packed = gzip.compress(RULES + b"#" + os.urandom(2000).hex().encode())
    return plain(packed[: len(packed) // 2], b"Content-Encoding: gzip")


def pages_of(wire: Wire) -> list[str]:
    paths = (head.split(b" ")[1].decode() for head in wire.heads)
    return sorted(path for path in paths if path != "/robots.txt")


def test_a_robots_txt_that_is_not_whole_disallows_all_until_it_is(
    run_crawl: Callable[..., CrawlResult],
) -> None:
    numbers, once = count(), count()
    sites: dict[str, tuple[Answer, list[str]]] = {
        "cut elsewhere each time": (lambda: cut(RULES + b"#" * next(numbers), length=9999), []),
        "cut once": (
            lambda: plain(RULES + b"Disallow: /b\n") if next(once) else cut(RULES, length=40),
            ["/", "/c"],
        ),
        "a wrong length": (lambda: cut(RULES + b"Disallow: /b", length=9999), ["/", "/c"]),
        "a wrong length, the last line in doubt": (
            lambda: cut(RULES + b"Allow: /", length=99),
            ["/", "/b", "/c"],
        ),
        "a body that never comes": (lambda: cut(b"", length=9999), []),
        "gzip that ends early": (packed_by_chance, []),
        "no gzip": (lambda: plain(b"\x1f\x8b\xff" * 9, b"Content-Encoding: gzip"), []),
        "an unknown coding": (lambda: plain(b"\xfd7zXZ\0\0", b"Content-Encoding: xz"), []),
        "plain text called gzip": (lambda: plain(RULES, b"Content-Encoding: gzip"), ["/", "/b", "/c"]),
        "an error that is cut": (
            lambda: Say([b"HTTP/1.1 404 No\r\nContent-Length: 9\r\n\r\nno"], then="close"),
            ["/", "/a", "/b", "/c"],
        ),
        "a redirect to a refused address": (lambda: redirect(b"http://169.254.1.1/robots.txt"), []),
        "a redirect to no host": (lambda: redirect(b"http://missing.invalid/robots.txt"), []),
    }
    with ExitStack() as stack:
        wires = {name: stack.enter_context(running(site(answer))) for name, (answer, _) in sites.items()}
        result = run_crawl(
            "broad",
            [wire.url() for wire in wires.values()],
            DOWNLOAD_DELAY=0.01,
            FRONTIER_MAX_ATTEMPTS=3,
            FRONTIER_RETRY_DELAY=0.1,
            SOFT_404=False,
        )
    assert {name: pages_of(wire) for name, wire in wires.items()} == {
        name: pages for name, (_, pages) in sites.items()
    }
    unreachable = {wires[name].url() for name, (_, pages) in sites.items() if not pages}
    assert unreachable <= {row["url"] for row in result.rows() if row["state"] == "failed"}
    assert result.summary["dead_letters"] == len(unreachable)
    # each was tried again, also where the redirect led
    assert all(len(wires[name].heads) > 1 for name, (_, pages) in sites.items() if not pages)
    assert result.summary["addresses_refused"] == 0
