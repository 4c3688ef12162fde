"""What a worker does with links before the engine has them, and with leased URLs that have simpler ones."""

from __future__ import annotations

import random
from collections import Counter
from typing import cast

from tests.frontier.pages import hash_of, page
from webcrawl.frontier import Frontier, LeasedURL
from webcrawl.policies.dust_rules import LEAST_PAIRS
from webcrawl.policies.page_sketches import Sketch
from webcrawl.worker.host_records import Dust, HostRecords, KnownPatterns
from webcrawl.worker.link_intake import LinkIntake

HOST = "http://a.test"


def intake_with(counters: Counter[str], dust: Dust) -> LinkIntake:
    return LinkIntake(cast("Frontier", None), counters, HostRecords(KnownPatterns(), dust))


def learned() -> Dust:
    """Rules after pages with and without a session."""
    dust = Dust(fingerprint=hash_of)
    for number in range(LEAST_PAIRS):
        for count, session in enumerate(("", "?sid=1", "?sid=2", "?sid=3", "?sid=4", "?sid=5")):
            text = random.Random(number).getrandbits(64)
            dust.add(HOST, f"/{number}{session}", Sketch(1 + number * 10 + count, text))
    return dust


def test_a_url_is_queued_once() -> None:
    counters = Counter[str]()
    intake = intake_with(counters, Dust())
    assert [intake.add(page(f"{HOST}/{path}")) for path in "aba"] == [True, True, False]
    assert (len(intake), intake.total, intake.sent) == (2, 2, 0)
    assert counters == {"cache_hits": 1}


def test_a_simpler_url_is_queued_instead_of_a_leased_one() -> None:
    counters = Counter[str]()
    intake = intake_with(counters, learned())
    intake.add(page(f"{HOST}/first"))
    kept, replaced = (LeasedURL(1, HOST, path, 3, 0, 0, 1, None, None) for path in ("/99?a=1", "/99?sid=7"))
    assert intake.replace(kept) is None
    assert intake.replace(replaced) == 2, "the engine must have both URLs first"
    assert counters == {"rewritten": 1}


def test_links_that_filters_refuse_are_counted() -> None:
    counters = Counter[str]()
    intake = intake_with(counters, Dust())
    links = [f"{HOST}/{n}" for n in range(4)]
    refused = set(links[:3])
    intake.count_links((HOST, "/"), links, new=4, refused=refused, uncredited=set(), url=f"{HOST}/", depth=1)
    assert counters == {"filtered": 3}
