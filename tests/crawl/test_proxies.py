"""PROXIES: a crawl through real proxies, some of which fail."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from tests.crawl.conftest import Project
from tests.crawls import CHECKOUT, CrawlResult
from tests.downloads import names
from tests.ports import free_ports
from tests.web import LocalWeb, Reply
from tests.wire import NOT_YOU, Proxy, SocksProxy, running

Crawl = Callable[..., CrawlResult]
StartWeb = Callable[..., LocalWeb]


SITES = [f"site{number}.test" for number in range(6)]


def test_a_crawl_goes_through_the_working_proxies_and_stays_polite(
    project: Project, local_web: StartWeb, run_crawl: Crawl
) -> None:
    web = local_web(*SITES)
    for site in SITES:
        links = "".join(f'<a href="/{number}">x</a>' for number in range(2))
        inner = '<a href="http://inner.test/secret">x</a><a href="http://127.0.0.1:1/secret">x</a>'
        web.put(site, "/", Reply(f"<title>{site}</title>{links}{inner}"))
    ways = {web.host(site).removeprefix("http://"): int(web.host(site).rpartition(":")[2]) for site in SITES}
    with ExitStack() as stack:
        good = [stack.enter_context(running(Proxy(ways))) for _ in range(2)]
        socks = stack.enter_context(running(SocksProxy(ways, login=b"me:secret")))
        closed = stack.enter_context(running(Proxy(ways, refusal=NOT_YOU)))
        shutil.copy(CHECKOUT / "examples" / "spiders" / "through_proxies.py", project.folder / "spiders")
        file = project.folder / "proxies.txt"
        lines = [proxy.url.replace("//", "//me:secret@") for proxy in (*good, socks, closed)]
        file.write_text("\n".join([*lines, f"http://me:secret@127.0.0.1:{free_ports(1)[0]}"]))
        outer = {site.replace(".", "_"): "192.0.2.1" for site in SITES}
        nameserver = stack.enter_context(names(inner_test="127.0.0.1", **outer))
        result = run_crawl(
            "through_proxies",
            [web.url(site) for site in SITES],
            project=project.folder,
            arguments={"scope": "web"},
            DNS_SERVERS=nameserver,
            ALLOWED_NETWORKS="192.0.2.0/24",
            DOWNLOAD_DELAY=0.2,
            timeout=60,
        )
    for site in SITES:
        assert sorted(web.paths(site)) == ["/", "/0", "/1", "/robots.txt"]
        assert web.min_gap(site) >= 0.2
    # inner addresses that a page chose are not sent to a proxy
    assert result.summary["addresses_refused"] == 2
    asked = [line for proxy in (*good, socks, closed) for line in proxy.asked]
    assert not any(b"secret" in line for line in asked)
    assert min(len(proxy.asked) for proxy in good) > 4
    # connections, each of which serves several requests
    assert len({line.rpartition(b":")[0] for line in socks.asked}) > 1
    assert {one for proxy in good for one in proxy.credentials} == {b"Basic bWU6c2VjcmV0"}
    assert set(socks.credentials) == {b"me:secret"}
    assert (result.summary["failed"], result.summary["dead_letters"]) == (0, 0)
    assert result.stderr.count("fails and is left out for 10 seconds") == 2
    written = [path.read_bytes() for path in result.data_dir.rglob("*") if path.is_file()]
    written += [gzip.decompress(path.read_bytes()) for path in result.data_dir.rglob("*.warc.gz")]
    assert any(b"GET /0 HTTP/1.1" in data for data in written)
    assert not any(b"me:secret" in data or b"bWU6c2VjcmV0" in data for data in written)
    assert "me:secret" not in result.stderr + result.stdout


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"PROXIES": "socks6://me:secret@proxy.test:1"}, "PROXIES, entry 1: socks6:// is not supported"),
        ({"PROXY_ROTATION": "never"}, "PROXY_ROTATION must be"),
    ],
)
def test_wrong_settings_end_the_command_without_showing_a_password(
    settings: dict[str, Any], message: str, crawl: Crawl
) -> None:
    result = crawl(["http://127.0.0.1:1/"], **settings, status=2)
    assert message in result.stderr and "secret" not in result.stderr
