"""The local web, by which tests measure politeness, records overlaps, gaps and connections correctly."""

from __future__ import annotations

import http.client
import math
import threading
from collections.abc import Callable
from urllib.parse import urljoin, urlsplit
from urllib.request import urlopen

import pytest

from tests.web import Hit, LocalWeb, Reply, generated_web

StartWeb = Callable[..., LocalWeb]


def connect(web: LocalWeb, label: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(web.url(label)).netloc, timeout=60)


def ask(connection: http.client.HTTPConnection, path: str, **headers: str) -> tuple[int, bytes]:
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    return response.status, response.read()


def test_each_address_serves_its_own_pages(local_web: StartWeb) -> None:
    web = local_web("127.0.1.1", "127.0.1.2")
    web.put("127.0.1.1", "/", "one")
    web.put("127.0.1.2", "/", b"two")
    web.put("127.0.1.2", "/teapot?size=2", Reply("short", status=418, headers={"X-Lid": "on"}))
    assert urlopen(web.url("127.0.1.1")).read() == b"one"
    assert urlopen(web.url("127.0.1.2")).read() == b"two"
    assert ask(connect(web, "127.0.1.2"), "/teapot?size=2") == (418, b"short")
    assert ask(connect(web, "127.0.1.2"), "/teapot")[0] == 404
    assert web.paths("127.0.1.2") == ["/", "/teapot?size=2", "/teapot"]
    assert [hit.status for hit in web.log()] == [200, 200, 418, 404]


def test_names_share_an_address_and_differ_by_host_header(local_web: StartWeb) -> None:
    web = local_web("shop.example", "blog.example")
    web.put("shop.example", "/", "shop")
    web.put("blog.example", "/", "blog")
    port = urlsplit(web.url("shop.example")).port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    assert ask(connection, "/", Host=f"shop.example:{port}") == (200, b"shop")
    assert ask(connection, "/", Host="blog.example") == (200, b"blog")
    assert ask(connection, "/", Host="other.example")[0] == 404


def test_a_page_may_be_a_function_of_the_request(local_web: StartWeb) -> None:
    web = local_web("127.0.1.1")

    def echo(hit: Hit) -> Reply:
        return Reply(f"{hit.method} {hit.path} {hit.headers['X-Mark']} ".encode() + hit.body)

    web.put("127.0.1.1", "*", echo)
    connection = connect(web, "127.0.1.1")
    connection.request("POST", "/a?b=%20", body=b"form", headers={"X-Mark": "m"})
    assert connection.getresponse().read() == b"POST /a?b=%20 m form"


def test_sequential_requests_do_not_overlap(local_web: StartWeb) -> None:
    web = local_web("127.0.1.1")
    web.put("127.0.1.1", "/", Reply("slow", delay=0.05))
    connection = connect(web, "127.0.1.1")
    for _ in range(3):
        ask(connection, "/")
    assert web.max_concurrency("127.0.1.1") == 1
    assert 0 <= web.min_gap("127.0.1.1") < web.min_start_gap("127.0.1.1")
    assert web.min_start_gap("127.0.1.1") >= 0.05
    assert {hit.connection for hit in web.log()} == {1}


def test_concurrent_requests_are_recorded_as_overlapping(local_web: StartWeb) -> None:
    web = local_web("127.0.1.1", "127.0.1.2")
    together = threading.Barrier(3)

    def gather(hit: Hit) -> Reply:
        return Reply("all here", delay=0.3)

    web.put("127.0.1.1", "/", gather)

    def visit() -> None:
        together.wait(60)
        urlopen(web.url("127.0.1.1")).read()

    visitors = [threading.Thread(target=visit) for _ in range(3)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join(60)
    assert web.max_concurrency("127.0.1.1") == 3
    assert web.min_gap("127.0.1.1") < 0
    assert len({hit.connection for hit in web.log()}) == 3
    assert (web.max_concurrency("127.0.1.2"), web.min_gap("127.0.1.2")) == (0, math.inf)


def test_an_aborted_reply_closes_the_connection(local_web: StartWeb) -> None:
    web = local_web("127.0.1.1")
    web.put("127.0.1.1", "/", Reply(abort=True))
    with pytest.raises(ConnectionError):
        ask(connect(web, "127.0.1.1"), "/")
    assert web.paths("127.0.1.1") == ["/"]


def test_a_generated_web_serves_its_graph(local_web: StartWeb) -> None:
    web = local_web("127.0.1.1", "127.0.1.2")
    graph = generated_web(7, web, pages=60)
    assert len(graph.links) == 60
    for url, links in graph.links.items():
        html = urlopen(url).read().decode()
        hrefs = [part.partition('"')[0].partition("#")[0] for part in html.split('<a href="')[1:]]
        assert tuple(urljoin(url, href) for href in hrefs) == links
    reached = graph.reachable(web.url("127.0.1.1"))
    assert 1 < len(reached) <= 60
    assert all(set(graph.links[url]) <= reached for url in reached)
    assert generated_web(7, web, pages=60) == graph != generated_web(8, web, pages=60)
