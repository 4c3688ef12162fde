"""What a crawl waits for: the shares add up, follow where hosts are, and name what stops the whole worker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from webcrawl.crawler.report.causes import Cause, Look, Shares, causes
from webcrawl.crawler.report.stages import Stage

numbers = st.integers(0, 5_000)
looks = st.builds(
    Look,
    hosts=st.dictionaries(st.sampled_from(Stage), numbers),
    processed=numbers,
    written=numbers,
    has_connections=st.booleans(),
    is_full=st.booleans(),
    holds=st.booleans(),
    engine_is_away=st.booleans(),
    queued=numbers,
    retrying=numbers,
)
BUSY = Look({Stage.TURN: 3, Stage.NETWORK: 1}, queued=9)


@given(looks)
def test_the_shares_of_a_look_add_up(look: Look) -> None:
    found = causes(look)
    assert not found or sum(found.values()) == pytest.approx(1)
    assert all(0 < share <= 1 for share in found.values())
    has_something = any(look.hosts.values()) or look.processed or look.queued or look.retrying
    assert bool(found) == bool(has_something or look.engine_is_away or look.holds)


@given(looks, st.sampled_from([Stage.TURN, Stage.NETWORK, Stage.ENGINE]), st.integers(1, 100))
def test_more_hosts_at_a_stage_never_lower_its_share(look: Look, stage: Stage, more: int) -> None:
    cause = {Stage.TURN: Cause.POLITENESS, Stage.NETWORK: Cause.NETWORK, Stage.ENGINE: Cause.ENGINE}[stage]
    after = replace(look, hosts={**look.hosts, stage: look.hosts.get(stage, 0) + more})
    if any(look.hosts.values()):
        assert causes(after).get(cause, 0.0) >= causes(look).get(cause, 0.0) - 1e-9


@cases(
    ("change", "shares"),
    [
        ({}, {Cause.POLITENESS: 0.75, Cause.NETWORK: 0.25}),
        ({"engine_is_away": True, "holds": True}, {Cause.ENGINE: 1.0}),
        ({"holds": True}, {Cause.STORES: 1.0}),
        ({"hosts": {Stage.DUE: 4}, "has_connections": False}, {Cause.NETWORK: 1.0}),
        ({"hosts": {Stage.DUE: 4}}, {Cause.PARSER: 1.0}),
        ({"hosts": {Stage.DUE: 4}, "is_full": True, "processed": 9, "written": 8}, {Cause.STORES: 1.0}),
        ({"hosts": {Stage.PROCESSING: 1}, "processed": 9, "written": 2}, {Cause.PARSER: 1.0}),
        ({"hosts": {Stage.PROCESSING: 1}, "processed": 9, "written": 9}, {Cause.STORES: 1.0}),
        ({"hosts": {}}, {Cause.POLITENESS: 1.0}),
        ({"hosts": {}, "queued": 0, "retrying": 5}, {Cause.RETRIES: 1.0}),
        ({"hosts": {}, "queued": 0}, {}),
    ],
)
def test_causes(change: Mapping[str, Any], shares: dict[Cause, float]) -> None:
    assert causes(replace(BUSY, **change)) == shares


@given(st.lists(looks, max_size=40))
def test_the_mean_is_that_of_the_last_looks_with_a_cause(seen: list[Look]) -> None:
    shares = Shares()
    for look in seen:
        shares.add(look)
    last = [found for look in seen if (found := causes(look))][-20:]
    mean = shares.mean()
    assert list(mean.values()) == sorted(mean.values(), reverse=True)
    assert not last or sum(mean.values()) == pytest.approx(1)
    for cause in Cause:
        assert mean.get(cause, 0.0) * len(last) == pytest.approx(sum(one.get(cause, 0.0) for one in last))


def test_the_line_names_the_large_shares_in_order() -> None:
    shares = Shares()
    assert shares.line() == ""
    shares.add(Look({Stage.TURN: 30, Stage.NETWORK: 69, Stage.ENGINE: 1}))
    assert shares.line() == "waits for: network 69%, politeness 30%"
    shares.clear()
    assert shares.line() == ""
