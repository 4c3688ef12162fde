"""Pages with many links to hosts that are never reached, beside honest hosts."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.crawls import Crawl, CrawlResult, scrapy, until
from tests.nameserver import Nameserver, Record, Trouble
from tests.web import LocalWeb, Reply

StartCrawl = Callable[..., Crawl]
HONEST = ("one.honest.example", "two.honest.example")
BAD = "bad.example"
PAGES = 12
OPTIONS = {
    "arguments": {"scope": "web"},
    "ALLOWED_NETWORKS": "127.0.0.0/8",
    "DOWNLOAD_DELAY": 0.05,
    "CONCURRENT_REQUESTS": 8,
}


@pytest.fixture
def web(local_web: Callable[..., LocalWeb]) -> LocalWeb:
    """Hosts whose pages form a chain, so that they are leased again and again."""
    web = local_web(*HONEST, BAD)
    for host in HONEST:
        for number in range(PAGES):
            # the links to the other hosts are found during the first page
            delay = 0.0 if number else 1.0
            web.put(host, f"/{number}", Reply(f'<a href="/{number + 1}">next</a>', delay=delay))
        web.put(host, f"/{PAGES}", "the end")
    return web


@pytest.fixture
def nameserver() -> Iterator[Nameserver]:
    zone: dict[str, list[Record] | Trouble] = {
        name: [Record("A", "127.0.0.1", 600)] for name in (*HONEST, BAD)
    }
    zone["*.silent.example"] = Trouble.SILENCE
    with Nameserver(zone) as server:
        yield server


def seeds(web: LocalWeb) -> list[str]:
    return [web.url(BAD), *(web.url(host, "/0") for host in HONEST)]


def honest_pages(web: LocalWeb) -> int:
    return sum(path != "/robots.txt" for host in HONEST for path in web.paths(host))


def test_names_that_nobody_answers_hold_no_other_host_up(
    web: LocalWeb, nameserver: Nameserver, start_crawl: StartCrawl
) -> None:
    links = "".join(f'<a href="http://n{number}.silent.example/">x</a>' for number in range(600))
    web.put(BAD, "/", links)
    crawl = start_crawl("broad", seeds(web), DNS_SERVERS=nameserver.address, DNS_TIMEOUT=60, **OPTIONS)

    def asked() -> int:
        return len({name for name, _ in nameserver.queries if name.endswith("silent.example")})

    until(lambda: asked() > 0 and honest_pages(web) == len(HONEST) * (PAGES + 1), crawl)
    assert asked() <= 25, "one domain has a quarter of the questions"


def test_names_that_do_not_exist_become_dead_letters(
    web: LocalWeb, nameserver: Nameserver, run_crawl: Callable[..., CrawlResult]
) -> None:
    hosts = [f"nowhere{number}.example" for number in range(550)]
    links = "".join(f'<a href="http://{host}/{page}">x</a>' for host in hosts for page in range(2))
    web.put(BAD, "/", links)
    result = run_crawl("broad", seeds(web), DNS_SERVERS=nameserver.address, **OPTIONS)
    assert result.summary["pages"] == len(HONEST) * (PAGES + 1) + 1
    done = scrapy("stuck", "--json", "-s", f"DATA_DIR={result.data_dir}")
    letters = [json.loads(line) for line in done.stdout.splitlines()]
    assert {letter["url"] for letter in letters} == {f"http://{host}/{n}" for host in hosts for n in range(2)}
    assert all("Domain name not found" in letter["reason"] for letter in letters)


def test_hosts_that_accept_no_connection_hold_no_other_host_up(
    web: LocalWeb, nameserver: Nameserver, start_crawl: StartCrawl
) -> None:
    """The kernel completes their connections, nobody answers, and they are more than the hosts of a lease."""
    with ExitStack() as sockets:
        hosts = []
        for number in range(300):
            listening = sockets.enter_context(socket.socket())
            listening.bind((f"127.0.{9 + number // 100}.{number % 100}", 0))
            listening.listen()
            hosts.append("http://{}:{}/".format(*listening.getsockname()))
        crawl = start_crawl(
            "broad",
            [*hosts, *seeds(web)],
            DNS_SERVERS=nameserver.address,
            DOWNLOAD_TIMEOUT=100,
            CONCURRENT_SLOW_REQUESTS=1_000,
            **OPTIONS,
        )
        until(lambda: honest_pages(web) == len(HONEST) * (PAGES + 1), crawl)
        assert crawl.process.poll() is None


@contextmanager
def hanging_up() -> Iterator[tuple[int, Counter[str]]]:
    """A port whose connections are closed at once, and how many there were by address."""
    accepted = Counter[str]()
    with socket.create_server(("0.0.0.0", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    accepted[connection.getsockname()[0]] += 1
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1], accepted
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def test_a_few_of_the_addresses_of_a_name_are_tried(
    web: LocalWeb, nameserver: Nameserver, run_crawl: Callable[..., CrawlResult]
) -> None:
    """Each name has 40 addresses, at which no TLS connection can be made."""
    hosts = {f"many{number}.example": f"127.0.{10 + number}." for number in range(12)}
    zone = {host: [Record("A", f"{net}{n}", 600) for n in range(1, 41)] for host, net in hosts.items()}
    nameserver.zone = {**nameserver.zone, **zone}
    with hanging_up() as (port, accepted):
        web.put(BAD, "/", "".join(f'<a href="https://{host}:{port}/">x</a>' for host in hosts))
        limits = {"POLITENESS_MAX_FAILURES": 1, "FRONTIER_MAX_ATTEMPTS": 1}
        result = run_crawl("broad", seeds(web), DNS_SERVERS=nameserver.address, **limits, **OPTIONS)
    assert honest_pages(web) == len(HONEST) * (PAGES + 1)
    done = scrapy("stuck", "--json", "-s", f"DATA_DIR={result.data_dir}")
    letters = {one["url"]: one["reason"] for one in map(json.loads, done.stdout.splitlines())}
    assert letters.keys() == {f"https://{host}:{port}/" for host in hosts}
    assert all("cannot connect to many" in reason for reason in letters.values()), letters
    for net in hosts.values():
        assert sum(times for address, times in accepted.items() if address.startswith(net)) == 4


def test_hosts_that_answer_slowly_hold_no_other_host_up(
    local_web: Callable[..., LocalWeb], web: LocalWeb, nameserver: Nameserver, start_crawl: StartCrawl
) -> None:
    """Their robots.txt comes at once, and their pages not for longer than the honest hosts take."""
    slow = local_web(*(f"127.0.9.{number}" for number in range(12)))
    for host in slow.sites:
        slow.put(host, "/", Reply("late", delay=200))
    crawl = start_crawl(
        "broad",
        [*(slow.url(host) for host in slow.sites), *seeds(web)],
        DNS_SERVERS=nameserver.address,
        DOWNLOAD_TIMEOUT=100,
        CONCURRENT_SLOW_REQUESTS=12,
        **OPTIONS,
    )
    until(lambda: honest_pages(web) == len(HONEST) * (PAGES + 1), crawl)
    assert sum(hit.path == "/" for hit in slow.log()) == len(slow.sites)
