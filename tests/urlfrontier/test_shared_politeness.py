"""Workers and clients share the turns of hosts: while one has URLs of a host, the other gets none."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from tests.urlfrontier.client import Client, ServerThread
from webcrawl.frontier import Candidate, Crawl, Frontier, Lease

A, B = "https://a.test/1", "https://a.test/2"


class Worker:
    """A worker of another crawl on the same engine, whose URLs are at a.test."""

    def __init__(self, server: ServerThread, unit: str = "name") -> None:
        self.wait = server.wait
        keys = replace(server.queues.keys, crawl="broad", unit=unit)
        self.frontier = Frontier(server.engine, keys, "worker")
        self.wait(Crawl(server.engine, keys, "worker").begin())
        self.wait(self.frontier.add([Candidate("http://a.test", f"/{n}", n) for n in range(10)]))

    def leases(self) -> list[Lease]:
        return self.wait(self.frontier.lease(9, 1))


def eventually(work: Callable[[], list[object]], seconds: float = 20.0) -> float:
    """Repeats work until its result is not empty; returns when that was."""
    end = time.monotonic() + seconds
    while not work():
        assert time.monotonic() < end
        time.sleep(0.03)
    return time.monotonic()


def test_a_worker_gets_no_host_while_clients_have_its_urls(server: ServerThread, client: Client) -> None:
    worker = Worker(server)
    client.put(client.discovered(A), client.discovered(B))
    assert client.urls(delay_requestable=600) == [A, B]
    assert worker.leases() == []
    time.sleep(0.3)
    assert worker.leases() == []
    client.put(client.known(A))
    time.sleep(0.3)
    assert worker.leases() == [], "one URL is still in transit"
    client.put(client.known(B))
    eventually(worker.leases)


def test_a_worker_waits_for_the_delay_of_the_queue(server: ServerThread, client: Client) -> None:
    worker = Worker(server)
    client.set_delay(2)
    client.put(client.discovered(A))
    began = time.monotonic()
    assert client.urls() == [A]
    client.put(client.known(A))
    assert eventually(worker.leases) - began >= 2


def test_a_worker_gets_the_host_when_the_time_in_transit_is_over(
    server: ServerThread, client: Client
) -> None:
    worker = Worker(server)
    client.put(client.discovered(A))
    began = time.monotonic()
    assert client.urls(delay_requestable=2) == [A]
    assert eventually(worker.leases) - began >= 2
    assert client.put(client.known(A)) == ["OK"], "a late report counts, and leaves the turn to the worker"
    assert client.put(client.discovered(B)) == ["OK"]
    assert client.urls() == []


def test_clients_get_no_url_of_a_host_that_a_worker_has(server: ServerThread, client: Client) -> None:
    worker = Worker(server)
    (lease,) = worker.leases()
    client.put(client.discovered(A))
    assert client.urls() == []
    assert client.urls(key="a.test") == []
    worker.wait(worker.frontier.release(lease, pause=1.5))
    released = time.monotonic()
    assert eventually(client.urls) - released >= 1.4


def test_a_worker_returns_a_host_that_clients_want(server: ServerThread, client: Client) -> None:
    worker = Worker(server)
    (lease,) = worker.leases()
    client.put(client.discovered(A))
    assert client.urls() == []
    assert worker.wait(worker.frontier.acknowledge(lease, more=5)) == [], "it gets no further URLs"


def test_other_clients_do_not_wait_for_the_pause_that_clients_leave(
    server: ServerThread, client: Client
) -> None:
    worker = Worker(server)
    client.set_delay(600)
    client.put(
        client.discovered(A), client.discovered(A, crawl="second"), client.discovered(A, crawl="third")
    )
    assert client.urls("DEFAULT") == [A]
    assert client.urls("second") == [A]
    client.put(client.known(A))
    time.sleep(0.3)
    assert worker.leases() == [], "the second crawl has the URL"
    client.put(client.known(A, crawl="second"))
    assert client.urls("third") == [A]
    assert worker.leases() == []


def test_a_deleted_queue_leaves_the_host_to_workers(server: ServerThread, client: Client) -> None:
    worker = Worker(server)
    client.set_delay(0)
    client.put(client.discovered(A))
    assert client.urls(delay_requestable=600) == [A]
    assert worker.leases() == []
    assert client.call("DeleteCrawl", "DeleteCrawlMessage").value == 1
    eventually(worker.leases)


def test_a_queue_that_is_no_host_has_a_turn_of_its_own(server: ServerThread, client: Client) -> None:
    worker = Worker(server)
    client.put(client.discovered(A, key="a.test:80"), client.discovered(A, key="a.test:81"))
    assert len(client.urls()) == 2
    assert len(worker.leases()) == 1


def test_with_a_turn_for_each_origin_the_queue_has_that_of_https(
    server: ServerThread, client: Client
) -> None:
    server.queues.keys = replace(server.queues.keys, unit="origin")
    worker = Worker(server, "origin")
    worker.wait(worker.frontier.add([Candidate("https://a.test", "/x", 99)]))
    client.put(client.discovered(A))
    assert client.urls() == [A]
    assert [lease.host for lease in worker.leases()] == ["http://a.test"]
