"""`GET /v1/search`, the clients' `search` and the assistant's `search_pages`, on a real index."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.crawls import scrapy
from tests.service.conftest import HOME, OTHER
from tests.service.served import Served
from tests.service.test_assistant import assistant, call, limited
from tests.web import LocalWeb
from webcrawl.client import AsyncClient, Client, ServiceProblem


@pytest.fixture(scope="module")
def indexed(service: Served, web: LocalWeb) -> tuple[str, str]:
    """URLs of two pages about storks in the index of the service."""
    text = "<title>Storks {}</title><p>A stork builds its nest on the {}, as long as it stands there.</p>"
    pages = web.put(HOME, "/roof", text.format(1, "roof")), web.put(OTHER, "/tower", text.format(2, "tower"))
    assert service.fetch(*pages).status_code == 200
    scrapy("search", "--update", "-s", f"DATA_DIR={service.process.data_dir / 'data'}")
    return pages


def test_pages_with_the_words_are_listed(service: Served, indexed: tuple[str, str]) -> None:
    roof, tower = indexed
    with Client(service.url) as client:
        both = client.search("stork nest")
        assert {page.url for page in both.results} == {roof, tower} and both.total == 2 and both.has_all
        (page,) = client.search("stork roof").results
        assert page.url == roof and page.title == "Storks 1" and page.mime_type == "text/html"
        assert {page.snippet[start:end] for start, end in page.marks} == {"stork", "roof"}
        first, second = (client.search("stork", limit=1, start=start).results for start in (0, 1))
        assert {first[0].url, second[0].url} == {roof, tower}
        host = tower.partition("//")[2].partition(":")[0]
        assert [page.url for page in client.search("stork", host=host).results] == [tower]
        assert not client.search("stork", until="2020-01-01").results
        assert not client.search("giraffe").total
        corrected = client.search("strok biulds", facets=True, sort="date")
        assert corrected.corrected == "stork builds" and {page.url for page in corrected.results} == {
            roof,
            tower,
        }
        hosts = {value.value: value.count for value in corrected.facets["host"]}
        assert set(hosts.values()) == {1} and all("127.0" in host for host in hosts)
        (alike,) = client.search(like=roof).results
        assert alike.url == tower

    async def ask() -> None:
        async with AsyncClient(service.url) as client:
            assert (await client.search("roof")).results[0].url == roof

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({}, "words"),
        ({"words": ""}, "words"),
        ({"words": "stork", "like": "http://127.0.1.1/"}, "give words, or like"),
        ({"like": "http://127.0.1.1/nowhere"}, "not in the index"),
        ({"words": "stork", "sort": "size"}, "sort"),
        ({"words": "stork", "facets": "many"}, "facets"),
        ({"words": "s*"}, "too short"),
        ({"words": "("}, ""),
        ({"words": "nothing:here"}, "nothing"),
        ({"words": "(" * 30}, ""),
        ({"words": "stork", "since": "autumn"}, "since: 'autumn' is not a time"),
        ({"words": "stork", "type": "html"}, "html"),
        ({"words": "stork", "crawl": "nowhere"}, "nowhere"),
        ({"words": "stork", "limit": "101"}, "limit"),
        ({"words": "stork", "start": "-1"}, "start"),
    ],
)
def test_a_wrong_search_is_named(
    service: Served, indexed: tuple[str, str], parameters: dict[str, str], error: str
) -> None:
    answer = service.client.get("/v1/search", params=parameters)
    assert answer.status_code == 400 and error in answer.json()["detail"]


@pytest.mark.parametrize("words", ["\0", "\ud7ff", '"', "*", "-", "a" * 1_000, "*:*", "\\", "💥", "[a TO b]"])
def test_odd_words_are_no_failure(service: Served, indexed: tuple[str, str], words: str) -> None:
    assert service.client.get("/v1/search", params={"words": words}).status_code in (200, 400)


def test_an_assistant_searches(service: Served, indexed: tuple[str, str]) -> None:
    async def ask() -> None:
        async with assistant("--service", service.url) as client:
            worked, answer = await call(client, "search_pages", words="stork roof")
            assert worked and answer.startswith("Results: 1, in the index of 20")
            assert f"1. Storks 1\n{indexed[0]}\n20" in answer and "on the roof" in answer
            worked, answer = await call(client, "search_pages", words="strok ruof")
            assert worked and "These are results for: stork roof" in answer and indexed[0] in answer
            worked, answer = await call(client, "search_pages", like=indexed[0], sort="date")
            assert worked and indexed[1] in answer
            worked, answer = await call(client, "search_pages", words="(")
            assert not worked and "The request is not valid" in answer

    limited(ask())


def test_without_an_index_the_error_says_how_to_make_it(
    start_service: Callable[..., Served], redis_url: str
) -> None:
    with Client(start_service(REDIS_URL=redis_url).url) as client, pytest.raises(ServiceProblem) as caught:
        client.search("stork")
    assert caught.value.status == 404 and "scrapy search --update" in caught.value.detail
