"""Stored pages are shown with the whole chain of their redirects, from SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.metadata import at, row
from tests.service.served import Served
from webcrawl.stores.metadata import Metadata

PAGE, SHORT, SHORTER = "https://example.org/page", "https://a.example/1", "https://b.example/2"
LOOP = "https://loop.example/"


def test_stored_pages_are_shown_with_their_chains(
    start_service: Callable[..., Served], redis_url: str, uri: str
) -> None:
    with Metadata(uri) as metadata:
        for minutes in range(3):
            metadata.upsert(
                [row(PAGE, status=200, title="Page", digest=f"{minutes}", fetched_at=at(minutes))]
            )
        metadata.upsert(
            [
                row(SHORTER, status=301, final_url=SHORT),
                row(SHORT, status=302, final_url=PAGE),
                row(LOOP, status=302, final_url=LOOP + "2"),
                row(LOOP + "2", status=302, final_url=LOOP),
                row("https://c.example/", status=302, final_url="https://unknown.example/"),
            ]
        )
    service = start_service(REDIS_URL=redis_url, METADATA_URI=uri)

    page = service.page(SHORTER, history="1").json()
    assert page["chain"] == [
        {"url": SHORTER, "status": 301},
        {"url": SHORT, "status": 302},
        {"url": PAGE, "status": 200},
    ]
    assert (page["url"], page["final_url"], page["title"], page["fetches"]) == (SHORTER, PAGE, "Page", 3)
    assert [fetch["digest"] for fetch in page["history"]] == ["0", "1"]
    assert page["fetched_at"].endswith("+00:00") and "etag" not in page

    # the canonical form of a URL is looked up too
    assert service.page(PAGE + "#top").json()["title"] == "Page"
    asked = [LOOP, "https://c.example/", "https://unknown.example/", "nonsense", PAGE, PAGE]
    answer = service.client.post("/v1/pages:read", json={"urls": asked}).json()
    assert [result["url"] for result in answer["results"]] == asked
    loop, lost, unknown, nonsense, *pages = (result["page"] for result in answer["results"])
    assert [link["url"] for link in loop["chain"]] == [LOOP, LOOP + "2"]
    assert (lost["final_url"], lost["chain"][-1]["status"]) == ("https://unknown.example/", None)
    assert unknown is None and nonsense is None and pages[0] == pages[1]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda url: service.page(url).json()["final_url"], [SHORT, PAGE] * 20))
    assert answers == [PAGE] * 40


def test_a_page_is_shown_as_soon_as_a_crawl_has_made_the_database(
    start_service: Callable[..., Served], redis_url: str, tmp_path: object
) -> None:
    uri = f"sqlite:///{tmp_path}/later.db"
    service = start_service(REDIS_URL=redis_url, METADATA_URI=uri)
    assert service.page(PAGE).status_code == 404
    with Metadata(uri) as metadata:
        metadata.upsert([row(PAGE, status=200)])
    assert service.page(PAGE).json()["status"] == 200
