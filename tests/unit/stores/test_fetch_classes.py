"""The class of the next fetch of a page, as the plan in the database has it, and as the crawl has it."""

from __future__ import annotations

from itertools import product

from sqlalchemy import insert

from tests.cases import cases
from tests.metadata import NOW, row
from webcrawl.policies.traffic import CHECKS, FRESHNESS_CHK, LIST_TYPES, class_of_visit
from webcrawl.stores.columns import pages
from webcrawl.stores.due_pages import DuePages
from webcrawl.stores.history import NOT_ALIVE, is_alive
from webcrawl.stores.metadata import Metadata

STATES = (None, "new", "changed", "unchanged", *NOT_ALIVE)
TYPES = (None, "", "text/html", "application/pdf", *sorted(LIST_TYPES))
NO_HUB = {"new_links": None, "link_rate": None, "change_rate": None}
LINKS = (
    (NO_HUB, False),
    (NO_HUB | {"new_links": 2}, False),
    (NO_HUB | {"new_links": 3}, True),
    (NO_HUB | {"link_rate": 2.0}, False),
    (NO_HUB | {"link_rate": 2.0, "change_rate": 2.5}, False),
    (NO_HUB | {"link_rate": 2.0, "change_rate": 0.5}, True),
    (NO_HUB | {"link_rate": 0.9, "change_rate": 0.5}, False),
)


def test_the_plan_and_the_crawl_agree_on_the_class_of_every_page(metadata: Metadata, uri: str) -> None:
    kinds = list(product(STATES, (None, False, True), TYPES, LINKS))
    rows, expected = [], {}
    for number, (state, soft_404, mime_type, (links, is_hub)) in enumerate(kinds):
        url = f"https://example.org/{number:05}"
        columns = {"state": state, "soft_404": soft_404, "mime_type": mime_type, "crawl": "news"} | links
        times = dict.fromkeys(("tried_at", "first_fetched_at", "next_due"), NOW)
        rows.append(row(url, **columns) | times | {"fetches": 1})
        alive = is_alive(state, is_soft_404=bool(soft_404))
        name = class_of_visit(mime_type, is_alive=alive)
        expected[url] = FRESHNESS_CHK if alive and is_hub else name
    metadata.database.write(lambda connection: connection.execute(insert(pages), rows))
    with DuePages(uri, "news") as plan:
        planned = {page.url: page.fetch_class for page in plan.look("", len(rows) + 1)[0]}
    assert planned == expected
    assert set(planned.values()) == set(CHECKS)


@cases("mime_type", sorted(LIST_TYPES))
def test_a_feed_that_is_gone_is_asked_whether_it_is_alive(mime_type: str) -> None:
    assert class_of_visit(mime_type, is_alive=False) == "coverage-chk"
