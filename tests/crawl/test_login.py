"""Sessions: login by form, cookies and jars, also over a restart, and HTTP authentication."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qsl

from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, Crawl, CrawlResult, items_of, until
from tests.nameserver import Nameserver, Record
from tests.web import Hit, LocalWeb, Reply

RunCrawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]

SITE = "127.0.1.1"

MEMBERS = """
from scrapy import FormRequest, Request, Spider


class Members(Spider):
    name = "members"

    async def start(self):
        yield Request(self.home + "/")

    def parse(self, response):
        yield response.follow("/login", self.log_in)

    def log_in(self, response):
        yield FormRequest.from_response(response, formdata={"user": "me", "password": "secret"}, callback=self.inside)

    def inside(self, response):
        yield {"path": response.url.removeprefix(self.home), "text": response.text}
        for number in range(4):
            yield Request(f"{self.home}/private/{number}", self.private)

    def private(self, response):
        yield {"path": response.url.removeprefix(self.home), "text": response.text}
"""


def members_only(web: LocalWeb, label: str = SITE) -> None:
    """Publishes a site with a login form: the form needs the cookie of its page, and /private that of the login."""
    form = '<form action="/login" method=post><input name=user><input name=password type=password>'
    form += "<input type=hidden name=token value=42></form>"
    logins = iter(range(1, 100))

    def login(hit: Hit) -> Reply:
        if hit.method == "GET":
            return Reply(form, headers={"Set-Cookie": "form=42; Path=/; HttpOnly"})
        given = dict(parse_qsl(hit.body.decode()))
        fine = given == {"user": "me", "password": "secret", "token": hit.headers.get("Cookie", "")[5:]}
        session = {"Set-Cookie": f"session={next(logins)}; Path=/; Max-Age=3600"}
        return Reply(status=302, headers={"Location": "/", **session}) if fine else Reply("wrong", status=403)

    def private(hit: Hit) -> Reply:
        cookies = dict(one.partition("=")[::2] for one in hit.headers.get("Cookie", "").split("; "))
        name = cookies.get("session")
        return Reply(f"<p>session {name}</p>") if name else Reply("log in", status=403)

    web.put(label, "/", lambda hit: Reply(f"<p>{hit.headers.get('Cookie', 'nobody')}</p>"))
    web.put(label, "/login", login)
    for number in range(20):
        web.put(label, f"/private/{number}", private)


def test_a_login_by_form_works_unchanged_and_survives_a_restart(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    members_only(web)
    project.add_spider("members", MEMBERS)
    for number, pages in enumerate((5, 0)):
        items = tmp_path / f"items{number}.jsonl"
        run_crawl(
            "members",
            project=project.folder,
            command=("crawl", "-o", str(items)),
            arguments={"home": web.host(SITE)},
            CRAWL_MAX_PAGES=pages,
            timeout=60,
        )
    found = [item for number in (0, 1) for item in items_of(tmp_path / f"items{number}.jsonl")]
    # the home page was seen before, and is the answer to the form
    assert found[0] == {"path": "/", "text": "<p>form=42; session=1</p>"}
    assert sorted(item["path"] for item in found[1:]) == [f"/private/{number}" for number in range(4)]
    assert {item["text"] for item in found[1:]} == {"<p>session 1</p>"}
    assert 1 < len(items_of(tmp_path / "items0.jsonl")) < len(found)
    assert web.paths(SITE).count("/login") == 2
    (asked,) = [hit for hit in web.log(SITE) if hit.path == "/robots.txt"]
    assert "Cookie" not in asked.headers


TEAM = """
import os

from scrapy import Request, Spider


class Team(Spider):
    name = "team"

    async def start(self):
        for jar in ("one", "two"):
            yield Request(f"http://www.shop.example:{self.port}/in/{jar}", meta={"cookiejar": jar})

    def parse(self, response):
        for number in range(16):
            url = f"http://s{number}.shop.example:{self.port}/as/"
            yield Request(url + response.meta["cookiejar"], self.inside, meta=response.meta)

    def inside(self, response):
        yield {"session": response.text, "worker": os.getpid()}
"""


def test_two_processes_continue_each_others_sessions(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    names = [f"s{number}.shop.example" for number in range(16)]
    web = local_web("www.shop.example", *names)
    for jar in ("one", "two"):
        cookie = {"Set-Cookie": f"session={jar}; Domain=shop.example; Path=/"}
        web.put("www.shop.example", f"/in/{jar}", Reply("in", headers=cookie))
        for name in names:
            web.put(name, f"/as/{jar}", lambda hit: Reply(hit.headers.get("Cookie", "nobody"), delay=0.1))
    project.add_spider("team", TEAM)
    with Nameserver({"*.shop.example": [Record("A", "127.0.0.1")]}) as nameserver:
        run_crawl(
            "team",
            project=project.folder,
            command=("workers", "2", "-o", str(tmp_path / "items.jsonl")),
            arguments={"port": web.host("www.shop.example").rpartition(":")[2]},
            ALLOWED_NETWORKS="127.0.0.0/8",
            DNS_SERVERS=nameserver.address,
            DOWNLOAD_DELAY=0.2,
            ROBOTSTXT_OBEY=False,
            tuned={"lease_hosts": 2, "most_lease_hosts": 0},
            timeout=60,
        )
    found = [item for place in range(2) for item in items_of(tmp_path / f"items-{place}.jsonl")]
    assert len({(item["session"], item["worker"]) for item in found}) == 4, "both use both sessions"
    assert sorted(item["session"] for item in found) == ["session=one"] * 16 + ["session=two"] * 16
    sent = {(hit.path, hit.headers.get("Cookie")) for hit in web.log() if hit.path.startswith("/as/")}
    assert sent == {(f"/as/{jar}", f"session={jar}") for jar in ("one", "two")}
    assert web.paths("www.shop.example").count("/in/one") == 1


POOL = """
from scrapy import Request, Spider


class Pool(Spider):
    name = "pool"
    http_user, http_pass = "me", "secret"

    async def start(self):
        for number in (1, 2):
            jar = {"cookiejar": number}
            yield Request(self.home + "/in", self.first, meta=jar, dont_filter=True, cb_kwargs={"number": number})
        yield Request(self.home + "/none", self.shown, meta={"dont_merge_cookies": True}, cookies={"a": "b"})
        yield Request(self.home + "/given", self.shown, cookies=[{"name": "n", "value": 1}, {"name": "x"}])
        yield Request(self.other + "/", self.shown)

    def first(self, response, number):
        yield Request(f"{self.home}/as/{number}", self.shown, meta={"cookiejar": number})

    def shown(self, response):
        yield {"path": response.url.partition("//")[2].partition("/")[2]}
"""


def test_jars_keep_sessions_apart_and_credentials_go_to_their_domain_only(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    other = "127.0.1.2"
    web = local_web(SITE, other)
    numbers = iter("abcdef")
    web.put(SITE, "/in", lambda hit: Reply("in", headers={"Set-Cookie": f"session={next(numbers)}; Path=/"}))
    for path in ("/none", "/given", "/as/1", "/as/2"):
        web.put(SITE, path, path)
    web.put(other, "/", "other")
    project.add_spider("pool", POOL)
    result = run_crawl(
        "pool",
        project=project.folder,
        arguments={
            "home": web.host(SITE),
            "other": web.host(other),
            "http_auth_domain": web.host(SITE).removeprefix("http://"),
        },
        timeout=60,
    )
    sent = {hit.path: hit.headers.get("Cookie") for hit in web.log(SITE)}
    assert {sent.pop("/as/1"), sent.pop("/as/2")} == {"session=a", "session=b"}
    assert sent == {"/robots.txt": None, "/in": None, "/none": None, "/given": "n=1"}
    assert {hit.headers.get("Authorization") for hit in web.log(SITE)} == {"Basic bWU6c2VjcmV0"}
    assert {hit.headers.get("Authorization") for hit in web.log(other)} == {None}
    assert "{'name': 'x'} has no name or no value" in result.stderr


def test_a_broad_crawl_keeps_no_cookies_unless_it_is_told_to(
    local_web: StartWeb, crawl: Callable[..., CrawlResult], tmp_path: Path
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", Reply("<a href=/next>x</a>", headers={"Set-Cookie": "seen=yes; Path=/"}))
    web.put(SITE, "/next", "next")
    for enabled, cookie in ({}, None), ({"COOKIES_ENABLED": True}, "seen=yes"):
        crawl([web.url(SITE)], CRAWL_ID=f"cookies{len(enabled)}", **enabled)
        assert web.log(SITE)[-1].path == "/next"
        assert web.log(SITE)[-1].headers.get("Cookie") == cookie


def example(project: Project, name: str) -> None:
    """Copies an example spider, as the how-to says."""
    shutil.copy(CHECKOUT / "examples" / "spiders" / f"{name}.py", project.folder / "spiders")


def test_the_example_crawls_a_site_as_a_user_and_does_not_log_out(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    members_only(web)
    links = "".join(f"<a href=/private/{number}>x</a>" for number in range(5))
    web.put(SITE, "/start", f"{links}<a href=/logout>log out</a>")
    example(project, "members")
    arguments = {"login": web.url(SITE, "/login"), "user": "me"}
    for password, code in ("wrong", 403), ("secret", 302):
        run_crawl(
            "members",
            [web.url(SITE, "/start")],
            project=project.folder,
            arguments={**arguments, "password": password},
            CRAWL_ID=password,
            timeout=60,
        )
        assert [hit.status for hit in web.log(SITE) if hit.method == "POST"][-1] == code
    assert not {"/logout"} & set(web.paths(SITE))
    private = [hit for hit in web.log(SITE) if hit.path.startswith("/private")]
    assert len(private) == 5 and {hit.status for hit in private} == {200}


def sessions_that_end(web: LocalWeb, uses: list[int]) -> None:
    """Publishes a site that redirects to its login page after so many private pages in each of the first sessions."""
    left: dict[str, int] = {}

    def session(hit: Hit) -> str | None:
        name = hit.headers.get("Cookie", "").removeprefix("session=")
        return name if left.get(name, 0) > 0 else None

    def login(hit: Hit) -> Reply:
        if session(hit):
            return Reply(status=302, headers={"Location": "/"})
        if hit.method == "GET":
            return Reply("<form method=post><input name=user><input name=password type=password></form>")
        name = str(len(left))
        left[name] = uses[len(left)] if len(left) < len(uses) else 99
        return Reply(status=302, headers={"Location": "/", "Set-Cookie": f"session={name}; Path=/"})

    def private(hit: Hit) -> Reply:
        name = session(hit)
        if name is None:
            return Reply(status=302, headers={"Location": f"/login?next={hit.path}"})
        left[name] -= 1
        return Reply(f"<p>{hit.path}</p>")

    web.put(SITE, "/", "<p>home</p>")
    web.put(SITE, "/login", login)
    for number in range(12):
        web.put(SITE, f"/private/{number}", private)
    links = "".join(f"<a href=/private/{number}>x</a>" for number in range(12))
    web.put(SITE, "/start", f"{links}<a href=/login>log in</a>")


def test_the_example_logs_in_again_when_a_session_has_ended(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl
) -> None:
    web = local_web(SITE)
    sessions_that_end(web, [7, 2])
    example(project, "members")
    hits: list[list[Hit]] = []
    for pages in (5, 0):
        result = run_crawl(
            "members",
            [web.url(SITE, "/start")],
            project=project.folder,
            arguments={"login": web.url(SITE, "/login"), "user": "me", "password": "secret"},
            DOWNLOAD_DELAY=0.05,
            CRAWL_MAX_PAGES=pages,
            timeout=60,
        )
        hits.append(web.log(SITE)[sum(map(len, hits)) :])
    first, resumed = hits
    assert [hit.method for hit in first if hit.path == "/login"] == ["GET", "POST"]
    # the first session outlives the first run, two more begin later
    private = [hit for hit in resumed if hit.path.startswith("/private/")]
    assert (private[0].status, private[0].headers["Cookie"]) == (200, "session=0")
    assert [hit.method for hit in resumed].count("POST") >= 2
    assert 302 in {hit.status for hit in private}
    rows = {row["url"].removeprefix(web.host(SITE)): row for row in result.rows()}
    assert {path for path, row in rows.items() if row["status"] == 200} >= {
        f"/private/{n}" for n in range(12)
    }
    assert not [path for path in web.paths(SITE) if path.startswith("/login?")]


def test_the_example_replaces_a_session_that_the_site_has_ended(
    project: Project, local_web: StartWeb, run_crawl: RunCrawl, tmp_path: Path
) -> None:
    web = local_web(SITE)
    left: dict[str, int] = {}

    def enter(hit: Hit) -> Reply:
        name = f"s{len(left)}"
        left[name] = 3  # a session is good for three pages
        return Reply("in", headers={"Set-Cookie": f"id={name}; Path=/"})

    def page(hit: Hit) -> Reply:
        name = hit.headers["Cookie"].removeprefix("id=")
        left[name] -= 1
        return Reply(hit.path, status=200 if left[name] >= 0 else 403)

    web.put(SITE, "/", enter)
    web.put(SITE, "/list", page)
    example(project, "session_pool")
    items = tmp_path / "items.jsonl"
    run_crawl(
        "session_pool",
        project=project.folder,
        command=("crawl", "-o", str(items)),
        arguments={
            "entry": web.url(SITE),
            "pages": web.url(SITE, "/list?page={}"),
            "count": 10,
            "sessions": 2,
        },
        timeout=60,
    )
    found = items_of(items)
    assert sorted(item["url"] for item in found) == sorted(
        web.url(SITE, f"/list?page={number}") for number in range(10)
    )
    assert {item["session"] for item in found} == {0, 1}
    assert {item["renewals"] for item in found} >= {0, 1}
    assert len(left) > 2


def test_two_accounts_over_three_addresses_keep_the_delay_of_the_host(
    project: Project, local_web: StartWeb, start_crawl: Callable[..., Crawl], tmp_path: Path
) -> None:
    """Also when the crawl is killed in between; the witness is the log of the server."""
    delay, pages = 0.3, 24
    web = local_web(SITE)
    links = "".join(f"<a href=/{number}>x</a>" for number in range(pages)) + "<a href=/logout>x</a>"
    form = "<form action=/login method=post><input name=user><input name=password type=password></form>"

    def login(hit: Hit) -> Reply:
        given = dict(parse_qsl(hit.body.decode()))
        if hit.method == "GET" or given.get("password") != f"of {given.get('user')}":
            return Reply(
                form, status=200 if hit.method == "GET" else 403, headers={"Content-Type": "text/html"}
            )
        return Reply(status=302, headers={"Location": "/", "Set-Cookie": f"user={given['user']}; Path=/"})

    web.put(SITE, "/login", login)
    web.put(SITE, "*", lambda hit: Reply(links) if hit.headers.get("Cookie") else Reply("log in", status=403))
    (tmp_path / "accounts.txt").write_text("ann of ann\n\nbob of bob\n")
    example(project, "several_accounts")
    options = {
        "project": project.folder,
        "arguments": {"login": web.url(SITE, "/login"), "accounts": str(tmp_path / "accounts.txt")},
        "BIND_ADDRESSES": "127.0.0.2,127.0.0.3,127.0.0.4",
        "DOWNLOAD_DELAY": delay,
        "FRONTIER_LEASE_SECONDS": 3,
    }
    first = start_crawl("several_accounts", **options)
    until(lambda: len(web.hits) > pages / 2, first)
    first.kill()
    result = start_crawl("several_accounts", **options).wait()
    assert result.summary["finish_reason"] == "finished"
    hits = web.pages(SITE)
    assert {hit.path for hit in hits} >= {
        f"/{number}" for number in range(pages)
    } and "/logout" not in web.paths(SITE)
    users = {hit.headers.get("Cookie") for hit in hits if hit.path[1:].isdigit()}
    assert users == {"user=ann", "user=bob"}
    assert len({hit.client for hit in web.log(SITE)}) == 1, "a host sees one address"
    assert {hit.client for hit in hits} < {"127.0.0.2", "127.0.0.3", "127.0.0.4"}
    gaps = [later.started - earlier.started for earlier, later in pairwise(hits)]
    assert min(gaps) >= delay - 0.02, "the server sees the end of a wait a little late"


def test_hosts_are_spread_over_the_addresses(local_web: StartWeb, crawl: Callable[..., CrawlResult]) -> None:
    sites = [f"127.0.2.{number}" for number in range(1, 13)]
    web = local_web(*sites)
    for site in sites:
        web.put(site, "/", "<a href=/next>x</a>")
        web.put(site, "/next", "next")
    mine = {"127.0.0.2", "127.0.0.3", "127.0.0.4"}
    crawl([web.url(site) for site in sites], BIND_ADDRESSES=",".join(sorted(mine)))
    seen = {site: {hit.client for hit in web.log(site)} for site in sites}
    assert all(len(clients) == 1 for clients in seen.values()), "also robots.txt"
    assert set.union(*seen.values()) == mine


def test_an_address_of_another_machine_ends_the_command(
    local_web: StartWeb, start_crawl: Callable[..., Crawl]
) -> None:
    result = start_crawl("broad", [local_web(SITE).url(SITE)], BIND_ADDRESSES="203.0.113.9").wait(status=2)
    assert "BIND_ADDRESSES, entry 1: requests cannot be sent from 203.0.113.9" in result.stderr
    bound = {"BIND_ADDRESSES": "127.0.0.2", "DOWNLOAD_BIND_ADDRESS": "127.0.0.3"}
    result = start_crawl("broad", [local_web(SITE).url(SITE)], **bound).wait(status=2)
    assert "set only one of them" in result.stderr


def test_http_authentication_works_with_every_spider(
    local_web: StartWeb, crawl: Callable[..., CrawlResult]
) -> None:
    web = local_web(SITE)

    def page(hit: Hit) -> Reply:
        known = hit.headers.get("Authorization") == "Basic bWU6c2VjcmV0"
        return Reply("<a href=/next>x</a>" if known else "who are you?", status=200 if known else 401)

    web.put(SITE, "*", page)
    host = web.host(SITE).removeprefix("http://")
    crawl([web.url(SITE)], HTTPAUTH_USER="me", HTTPAUTH_PASS="secret", HTTPAUTH_DOMAIN=host)
    assert [(hit.path, hit.status) for hit in web.log(SITE)][1:] == [("/", 200), ("/next", 200)]
