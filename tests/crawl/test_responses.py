"""Responses in a crawl: errors, redirects, encodings, robots directives and malformed data."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from tests.crawl.archive import check, record_at, records
from tests.crawls import CrawlResult
from tests.web import LocalWeb, Reply
from tests.wire import Say, Wire, plain, running

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE, OTHER = "127.0.1.1", "127.0.1.2"
QUICK = {"FRONTIER_RETRY_DELAY": 0.1, "POLITENESS_BACKOFF": 0.1}


def home_of(web: LocalWeb, *paths: str) -> str:
    """Publishes a home page that links to `paths`; returns its URL."""
    return web.put(SITE, "/", "".join(f'<a href="{path}">{path}</a>' for path in paths))


def by_path(web: LocalWeb, result: CrawlResult) -> dict[str, dict[str, Any]]:
    """Returns the rows by path for SITE, and by URL for other hosts."""
    return {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}


def test_errors_have_rows_and_server_errors_are_retried(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    answers = iter([500, 502, 200])
    web.put(SITE, "/broken", Reply("it broke", status=500))
    web.put(SITE, "/gone", Reply("gone", status=410))
    web.put(SITE, "/once", lambda hit: Reply("at last", status=next(answers)))
    sleeps = iter([2.0, 0.0])
    web.put(SITE, "/sleepy", lambda hit: Reply("awake", delay=next(sleeps)))
    paths = ["/missing", "/broken", "/gone", "/once", "/sleepy"]
    result = crawl([home_of(web, *paths)], FRONTIER_MAX_ATTEMPTS=3, DOWNLOAD_TIMEOUT=0.5, **QUICK)
    rows = by_path(web, result)
    statuses = {path: row["status"] for path, row in rows.items()}
    assert statuses == {"/": 200, "/missing": 404, "/broken": 500, "/gone": 410, "/once": 200, "/sleepy": 200}
    asked = web.paths(SITE)
    times = {path: asked.count(path) for path in statuses}
    assert times == {"/": 1, "/missing": 1, "/broken": 3, "/gone": 1, "/once": 3, "/sleepy": 2}
    assert {path: row["attempts"] for path, row in rows.items()} == times
    assert rows["/missing"]["referrer"] == web.url(SITE)
    assert result.summary["responses"] == {"200": 3, "404": 1, "410": 1, "500": 4, "502": 1}
    summary = result.summary
    assert (summary["pages"], summary["queued"], summary["retried"], summary["dead_letters"]) == (3, 0, 5, 0)


def test_overlong_heads_count_against_the_host_and_are_not_kept(crawl: RunCrawl) -> None:
    def answer(head: bytes) -> Say:
        path = head.split(b" ")[1]
        if path == b"/robots.txt":
            return plain(b"", status=b"404 none")
        if path == b"/":
            links = b"".join(b"<a href=/%d>x</a>" % number for number in range(20))
            return plain(links, b"Content-Type: text/html", b"ETag: " + b"e" * 60_000, b"Last-Modified: now")
        return Say([b"HTTP/1.1 200 \x1b]0;" + b"o" * 120_000 + b"\r\n\r\n"], then="close")

    with running(Wire([answer])) as wire:
        result = crawl([wire.url("/")], POLITENESS_MAX_FAILURES=4, FRONTIER_MAX_ATTEMPTS=2, **QUICK)
    rows = {urlsplit(row["url"]).path: row for row in result.rows()}
    assert (rows["/"]["status"], rows["/"]["etag"], rows["/"]["last_modified"]) == (200, None, "now")
    assert result.summary["dead_letters"] == 20
    assert 4 <= len(wire.heads) - 2 < 20, "the host is given up"
    errors = {row["error"] for path, row in rows.items() if path != "/"}
    assert errors == {"OverlongHead: a line of the head is longer than 64 KiB"}


def test_redirect_to_a_variant_of_the_same_canonical_url_is_followed(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/page", Reply(status=302, headers={"Location": "/page;jsessionid=1"}))
    web.put(SITE, "/page;jsessionid=1", "<title>with a session</title>")
    web.put(SITE, "/twice", Reply(status=302, headers={"Location": "/twice?utm_source=a"}))
    web.put(SITE, "/twice?utm_source=a", Reply(status=302, headers={"Location": "/page"}))
    web.put(SITE, "/endless", Reply(status=302, headers={"Location": "/endless;jsessionid=1"}))
    web.put(SITE, "/endless;jsessionid=1", Reply(status=302, headers={"Location": "/endless;jsessionid=2"}))
    web.put(SITE, "/endless;jsessionid=2", Reply(status=302, headers={"Location": "/endless;jsessionid=1"}))
    result = crawl([home_of(web, "/page", "/twice", "/endless")], **QUICK, REDIRECT_MAX_TIMES=5)
    rows = by_path(web, result)
    assert rows["/page"]["status"] == 302
    assert rows["/page;jsessionid=1"]["title"] == "with a session"
    assert rows["/twice"]["status"] == 302
    requested = web.paths(SITE)
    assert requested.count("/page") == 1, "a URL that was seen is not requested again after a variant"
    assert requested.count("/page;jsessionid=1") == 1
    assert 2 <= sum(path.startswith("/endless") for path in requested) <= 6


def test_redirect_target_is_requested_as_a_filter_rewrites_it(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    web.put(SITE, "/old", Reply(status=302, headers={"Location": "/new;jsessionid=1"}))
    web.put(SITE, "/new", "<title>new</title>")
    web.put(SITE, "/own", Reply(status=302, headers={"Location": "/own;jsessionid=1"}))
    web.put(SITE, "/own;jsessionid=1", "<title>own</title>")
    filters = json.dumps({"tests.crawl.session_filter.SessionFilter": 50})
    result = crawl([home_of(web, "/old", "/own")], **QUICK, URL_FILTERS=filters)
    rows = by_path(web, result)
    assert (rows["/old"]["status"], rows["/old"]["final_url"]) == (302, web.url(SITE, "/new"))
    assert rows["/new"]["title"] == "new"
    assert "/new;jsessionid=1" not in web.paths(SITE)
    assert rows["/own;jsessionid=1"]["title"] == "own", "without the session id the page cannot be had"


def test_a_redirect_with_backslashes_is_followed(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    web.put(SITE, "/old", Reply(status=302, headers={"Location": "\\a\\..\\new?b\\c"}))
    web.put(
        SITE, "/new?b%5Cc", Reply("<ul><a href=/end>", headers={"Content-Type": "text/html charset=utf-8"})
    )
    web.put(SITE, "/end", "end")
    rows = by_path(web, crawl([home_of(web, "/old")], **QUICK))
    assert (rows["/old"]["status"], rows["/old"]["final_url"]) == (302, web.url(SITE, "/new?b%5Cc"))
    assert rows["/end"]["status"] == 200


def test_redirects_and_their_targets_have_rows(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE, OTHER)
    web.put(SITE, "/old", Reply("moved", status=301, headers={"Location": "/new?x=1#part"}))
    web.put(SITE, "/older", Reply(status=308, headers={"Location": "old"}))
    web.put(SITE, "/new", "<title>new</title><a href=/after>on</a>")
    web.put(SITE, "/after", "after")
    web.put(SITE, "/away", Reply(status=302, headers={"Location": web.url(OTHER, "/elsewhere")}))
    web.put(SITE, "/loop", Reply(status=302, headers={"Location": "/pool"}))
    web.put(SITE, "/pool", Reply(status=302, headers={"Location": "/loop"}))
    web.put(SITE, "/nowhere", Reply("no Location", status=302))
    web.put(SITE, "/odd", Reply(status=302, headers={"Location": "http://["}))
    web.put(SITE, "/self", Reply(status=303, headers={"Location": "/self"}))
    paths = ["/older", "/old", "/away", "/loop", "/nowhere", "/odd", "/self", "/new?x=1"]
    result = crawl([home_of(web, *paths)], **QUICK)
    rows = by_path(web, result)
    new = web.url(SITE, "/new?x=1")
    assert (rows["/old"]["status"], rows["/old"]["final_url"]) == (301, new)
    assert (rows["/older"]["status"], rows["/older"]["final_url"]) == (308, web.url(SITE, "/old"))
    assert (rows["/new?x=1"]["status"], rows["/new?x=1"]["title"]) == (200, "new")
    assert rows["/after"]["referrer"] == new
    assert web.paths(OTHER) == []
    assert {
        path: rows[path]["status"] for path in ("/away", "/loop", "/pool", "/nowhere", "/odd", "/self")
    } == {
        "/away": 302,
        "/loop": 302,
        "/pool": 302,
        "/nowhere": 302,
        "/odd": 302,
        "/self": 303,
    }
    asked = web.paths(SITE)
    assert sorted(asked) == sorted({*asked}), "each URL must be fetched once, even if several redirect to it"
    assert set(records(result.data_dir, "response")) == {row["url"] for row in result.rows()}
    check(result.data_dir)


def test_robots_directives_of_pages_are_obeyed(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)

    def page(name: str, head: str = "", **headers: str) -> str:
        body = f"<html><head>{head}<title>{name}</title></head><p>{name}</p><a href=/from-{name}>x</a></html>"
        web.put(
            SITE,
            f"/{name}",
            Reply(body, headers={key.replace("_", "-"): value for key, value in headers.items()}),
        )
        return f"/{name}"

    paths = [
        page("plain"),
        page("noindex", '<meta name="robots" content="noindex">'),
        page("nofollow", '<meta name="ROBOTS" content="NOFOLLOW">'),
        page("noarchive", '<meta name="robots" content="noarchive">'),
        page("header-none", X_Robots_Tag="none"),
        page("header-noarchive", X_Robots_Tag="noarchive"),
        page("for-another", X_Robots_Tag="otherbot: none"),
    ]
    web.put(
        SITE,
        "/",
        "<a rel=nofollow href=/secret>s</a>" + "".join(f"<a href={path}>{path}</a>" for path in paths),
    )
    result = crawl([web.url(SITE)])
    rows = by_path(web, result)
    followed = {path for path in web.paths(SITE) if path.startswith("/from-")}
    assert followed == {
        "/from-plain",
        "/from-noindex",
        "/from-noarchive",
        "/from-header-noarchive",
        "/from-for-another",
    }
    assert "/secret" not in web.paths(SITE)
    assert {path for path in paths if rows[path]["warc_file"] is None} == {
        "/noindex",
        "/noarchive",
        "/header-none",
        "/header-noarchive",
    }
    assert {path for path in paths if rows[path]["title"] is None} == {"/noindex", "/header-none"}
    archived = records(result.data_dir, "response")
    assert not [url for url in archived if "noarchive" in url and "from" not in url]
    rude = crawl([web.url(SITE)], ROBOTS_META_OBEY=False, CRAWL_ID="rude")
    assert "/from-nofollow" in web.paths(SITE)
    assert by_path(web, rude)["/noindex"]["warc_file"] is not None


def test_charsets_and_content_encodings_are_decoded(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)

    def html(title: str, meta: str = "") -> str:
        return f"<html><head>{meta}<title>{title}</title></head><body><p>{title}</p></body></html>"

    latin, japanese, zipped = html("Grüße").encode("latin-1"), "日本語のページ", html("zipped").encode()
    web.put(SITE, "/latin", Reply(latin, headers={"Content-Type": "text/html; charset=ISO-8859-1"}))
    web.put(
        SITE,
        "/japanese",
        Reply(
            html(japanese, '<meta charset="shift_jis">').encode("shift_jis"),
            headers={"Content-Type": "text/html"},
        ),
    )
    web.put(SITE, "/nonsense", Reply(html("Grüße"), headers={"Content-Type": "text/html; charset=nonsense"}))
    web.put(SITE, "/zipped", Reply(gzip.compress(zipped), headers={"Content-Encoding": "gzip"}))
    web.put(SITE, "/not-zipped", Reply(html("liar"), headers={"Content-Encoding": "gzip"}))
    bomb = gzip.compress(b"<p>" + b"0" * 3_000_000)
    web.put(SITE, "/bomb", Reply(bomb, headers={"Content-Encoding": "gzip"}))
    paths = ["/latin", "/japanese", "/nonsense", "/zipped", "/not-zipped", "/bomb"]
    result = crawl([home_of(web, *paths)], DOWNLOAD_MAXSIZE=1_000_000, **QUICK)
    rows = by_path(web, result)
    assert rows["/latin"]["title"] == "Grüße"
    assert rows["/japanese"]["title"] == japanese
    assert rows["/japanese"]["charset"].lower() in ("shift_jis", "cp932")
    assert rows["/nonsense"]["title"] == "Grüße"
    assert (rows["/zipped"]["title"], rows["/zipped"]["length"]) == ("zipped", len(zipped))
    assert record_at(result.data_dir, rows["/zipped"]).body == zipped
    assert record_at(result.data_dir, rows["/latin"]).body == latin
    assert rows["/not-zipped"]["status"] == 200 or rows["/not-zipped"]["error"]
    assert rows["/bomb"]["error"], "its decompressed size exceeds DOWNLOAD_MAXSIZE"
    assert web.paths(SITE).count("/bomb") == 1
    check(result.data_dir)


def test_bodies_over_download_maxsize_fail_without_a_retry(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    web.put(SITE, "/large", b"x" * 50_000)
    web.put(
        SITE, "/endless", Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + b"y" * 50_000)
    )
    web.put(SITE, "/fits", b"z" * 9_000)
    result = crawl([home_of(web, "/large", "/endless", "/fits")], DOWNLOAD_MAXSIZE=10_000, **QUICK)
    rows = by_path(web, result)
    for path in ("/large", "/endless"):
        assert "DOWNLOAD_MAXSIZE" in rows[path]["error"]
        assert rows[path]["warc_file"] is None
        assert web.paths(SITE).count(path) == 1
    assert (rows["/fits"]["status"], rows["/fits"]["error"]) == (200, None)


def test_malformed_bodies_are_stored_and_parsed(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    broken = b"<html><<a href='/found'>x<title>Odd &#0; \xff\xfe</p></table><a href=><a href='http://[oops'>\x00<!--"
    web.put(SITE, "/broken", broken)
    web.put(SITE, "/found", "found")
    web.put(SITE, "/empty", b"")
    web.put(SITE, "/nothing", Reply(status=204))
    web.put(
        SITE,
        "/picture",
        Reply(b"\x89PNG\r\n\x1a\n" + bytes(range(256)), headers={"Content-Type": "text/html"}),
    )
    web.put(SITE, "/blob", Reply(bytes(range(256)) * 8, headers={"Content-Type": "application/octet-stream"}))
    web.put(SITE, "/deep", "<div>" * 20_000 + "<a href=/bottom>x</a>")
    web.put(SITE, "/bottom", "bottom")
    paths = ["/broken", "/empty", "/nothing", "/picture", "/blob", "/deep"]
    result = crawl([home_of(web, *paths)])
    rows = by_path(web, result)
    assert rows.keys() == {"/", "/found", "/bottom", *paths}
    assert (rows["/empty"]["length"], rows["/empty"]["status"]) == (0, 200)
    assert rows["/nothing"]["status"] == 204
    assert rows["/picture"]["mime_type"] == "image/png"
    assert record_at(result.data_dir, rows["/broken"]).body == broken
    assert record_at(result.data_dir, rows["/blob"]).body == bytes(range(256)) * 8
    check(result.data_dir)


def raw(*lines: bytes) -> Reply:
    """A response with exactly this head and a body of its own, ended by closing the connection."""
    return Reply(raw=b"\r\n".join([*lines, b"", lines[-1][:80]]))


OK = b"HTTP/1.1 200 OK"
HTML = b"Content-Type: text/html"
READABLE = {
    "/no-phrase": raw(b"HTTP/1.1 200", HTML),
    "/latin-header": raw(
        OK, HTML, b"X-Who: J\xfcrgen", b'ETag: "\xfc"', b"Last-Modified: \xff\xfe yesterday"
    ),
    "/twice": raw(OK, HTML, b"X-A: 1", b"X-A: 2", b"Content-Type: text/html; charset=latin-1"),
    "/no-type": raw(OK),
    "/odd-status": raw(b"HTTP/1.1 299 Quite fine", HTML, b"X-Odd: 1"),
    "/http-1.0": raw(b"HTTP/1.0 200 OK", HTML, b"X-Old: 1"),
    "/long-header": raw(OK, HTML, b"X-Long: " + b"l" * 30_000),
}
UNREADABLE = {
    "/silence": Reply(abort=True),
    "/not-http": Reply(raw=b"SSH-2.0-OpenSSH_9.2\r\n"),
    "/half-a-head": Reply(raw=b"HTTP/1.1 200 OK\r\nContent-Ty"),
    "/bad-length": raw(OK, HTML, b"Content-Length: many, more"),
    "/endless-header": raw(OK, b"X-Long: " + b"l" * 200_000),
}


def test_unusual_heads_are_read_and_malformed_ones_fail(local_web: StartWeb, crawl: RunCrawl) -> None:
    web = local_web(SITE)
    web.sites[SITE].update({**READABLE, **UNREADABLE})
    short = raw(OK, HTML, b"Content-Length: 1000")
    web.put(SITE, "/short", short)
    result = crawl(
        [home_of(web, *READABLE, *UNREADABLE, "/short")],
        FRONTIER_MAX_ATTEMPTS=2,
        POLITENESS_MAX_FAILURES=100,
        POLITENESS_MAX_BACKOFF=0.2,
        **QUICK,
    )
    rows = by_path(web, result)
    assert rows.keys() == {"/", "/short", *READABLE, *UNREADABLE}
    for path in READABLE:
        assert rows[path]["error"] is None, path
        assert record_at(result.data_dir, rows[path]).body == READABLE[path].raw.rpartition(b"\r\n")[2]
    for path in UNREADABLE:
        assert rows[path]["error"], path
        assert (rows[path]["status"], rows[path]["warc_file"]) == (None, None), path
        assert web.paths(SITE).count(path) == 2, path
    assert (rows["/short"]["status"], rows["/short"]["attempts"]) == (200, 2)
    assert rows["/short"]["error"] == "the connection broke before the end of the body"
    assert result.summary["dead_letters"] == len(UNREADABLE)
    check(result.data_dir)


def test_malformed_responses_fail_their_pages_and_not_their_host(
    local_web: StartWeb, crawl: RunCrawl
) -> None:
    """One host has more malformed pages than it may fail in a row, the other a malformed robots.txt."""
    web = local_web(SITE, OTHER)
    bad = {f"/bad{number}": raw(OK, HTML, b"Content-Length: %d, many" % number) for number in range(5)}
    mended = {"/mended": raw(OK, HTML, b"X N: 1"), "/named": raw(OK, HTML, b"X-\xc4: 2")}
    good = [f"/good{number}" for number in range(5)]
    web.sites[SITE].update({**bad, **mended, **dict.fromkeys(good, "good")})
    web.put(OTHER, "/robots.txt", raw(OK, b"Content-Length: many, more"))
    web.put(OTHER, "/", "not to be had")
    result = crawl(
        [home_of(web, *bad, *mended, *good), web.url(OTHER)],
        FRONTIER_MAX_ATTEMPTS=2,
        POLITENESS_MAX_FAILURES=2,
        POLITENESS_MAX_BACKOFF=0.2,
        **QUICK,
    )
    rows = by_path(web, result)
    assert {path for path, row in rows.items() if row["status"] == 200} == {"/", *mended, *good}
    for path in bad:
        assert rows[path]["error"].startswith("MalformedAnswer: Invalid character in Content-Length"), path
        assert (rows[path]["state"], web.paths(SITE).count(path)) == ("failed", 2)
    for path, reply in mended.items():
        assert record_at(result.data_dir, rows[path]).body == reply.raw.rpartition(b"\r\n")[2]
    assert rows[web.url(OTHER)]["error"].startswith("RobotsUnreachable")
    assert "/" not in web.paths(OTHER)
    assert (result.summary["dead_letters"], result.summary["failed"]) == (6, 6)
    check(result.data_dir)
