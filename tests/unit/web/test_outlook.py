"""What several workers together know of the waits and the end of their crawl."""

from __future__ import annotations

from tests.cases import cases
from webcrawl.frontier.workers import WorkerOutlook
from webcrawl.web.outlook import how_it_ended, next_step, together


def test_shares_are_means_of_the_workers_that_know_some() -> None:
    shares, _, _ = together(
        [
            WorkerOutlook({"politeness": 1.0}),
            WorkerOutlook({"politeness": 0.5, "network": 0.5}),
            WorkerOutlook(),
        ]
    )
    assert shares == {"politeness": 0.75, "network": 0.25}
    assert list(shares)[0] == "politeness", "the largest first"


def test_the_slowest_hosts_of_all_workers_come_first() -> None:
    hosts = [(f"https://{number}.test", number, 2.0) for number in range(1, 5)]
    _, slow, _ = together([WorkerOutlook(slow=hosts[:2]), WorkerOutlook(slow=hosts[2:])])
    assert slow == [hosts[3], hosts[2], hosts[1]]


def test_a_crawl_ends_with_its_last_worker() -> None:
    ends = [
        WorkerOutlook(ends=100.0, grounds="first"),
        WorkerOutlook(),
        WorkerOutlook(ends=200.0, grounds="last"),
    ]
    assert together(ends)[2] == (200.0, "last")
    assert together([])[2] is None


@cases(
    ("reason", "left", "how"),
    [
        ("finished", 0, "It finished: there is nothing left to crawl."),
        ("max_pages", 1, "It was stopped at CRAWL_MAX_PAGES. 1 URL is left."),
        ("stopped", 1_200, "It was stopped by an operator. 1,200 URLs are left."),
        ("finished", 3, "It ended with URLs that cannot be fetched now. 3 URLs are left."),
        ("some_reason", 0, "It ended: some reason."),
        (
            None,
            5,
            "Its workers ended without a word: they were killed, or lost their machine. 5 URLs are left.",
        ),
    ],
)
def test_the_end_of_a_crawl_in_words(reason: str | None, left: int, how: str) -> None:
    assert how_it_ended(reason, left) == how


@cases(
    ("reason", "step"),
    [
        ("stopped", "The same command continues it."),
        (None, "The same command continues it."),
        ("max_pages", "The same command with a higher --max-pages (CRAWL_MAX_PAGES) continues it."),
        ("max_bytes", "The same command with a higher CRAWL_MAX_BYTES continues it."),
    ],
)
def test_a_crawl_at_its_limit_goes_on_with_a_higher_one(reason: str | None, step: str) -> None:
    assert next_step(reason) == step
