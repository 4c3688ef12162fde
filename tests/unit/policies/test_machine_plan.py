"""The plan of machines: its amounts grow with what they depend on, units agree, and bad input is named."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.cases import cases
from webcrawl.policies.machine_plan import DAY, CrawlGoal, PlanInputs, machine_plan, waiting_in_engine

GOALS = st.builds(
    CrawlGoal,
    pages=st.floats(1, 1e11),
    seconds=st.floats(1, 1e8),
    delay=st.just(0.0) | st.floats(1e-6, 100),
    hot_urls=st.sampled_from([0, 10, 1000, 1e6]),
)
INPUTS = st.builds(
    PlanInputs,
    **{
        declared.name: st.floats(
            max(declared.metadata["least"], declared.default / 8), max(declared.default * 8, 1.0)
        )
        for declared in fields(PlanInputs)
        if declared.name != "busy"
    },
    busy=st.floats(0.1, 1),
)
# what may fall while an input grows
FALLING = {
    "host_pages": {
        *("visited", "memory", "memory, hosts", "memory, queues", "queues", "primaries"),
        *("robots.txt, at least", "DNS queries"),
    },
    "worker_pages": {"workers", "memory"},
    "primary_gb": {"primaries"},
    "machine_cores": {"machines"},
    "busy": {"machines", "cores", "workers", "memory", "primaries"},
    "lookup_pages": {"DNS queries"},
    "connection_pages": {"new connections", "received"},
    "warc_mb": {"WARC files", "S3 requests", "S3 requests a second"},
    "part_mb": {"S3 requests", "S3 requests a second"},
}


def amounts(goal: CrawlGoal, inputs: PlanInputs) -> dict[tuple[str, str], float]:
    return {(need.group, need.name): need.amount for need in machine_plan(goal, inputs)}


@settings(max_examples=25)
@given(GOALS, INPUTS)
def test_amounts_are_finite_and_named_once(goal: CrawlGoal, inputs: PlanInputs) -> None:
    needs = machine_plan(goal, inputs)
    assert len({(need.group, need.name) for need in needs}) == len(needs)
    assert all(math.isfinite(need.amount) and need.amount >= -1e-3 * goal.pages for need in needs)


@settings(max_examples=25)
@given(GOALS, INPUTS, st.floats(1, 10))
def test_more_pages_in_the_same_time_need_no_less_of_anything(
    goal: CrawlGoal, inputs: PlanInputs, times: float
) -> None:
    more = CrawlGoal(goal.pages * times, goal.seconds, goal.delay, goal.hot_urls)
    after = amounts(more, inputs)
    for name, amount in amounts(goal, inputs).items():
        if name == ("workers", "hosts of a worker at once"):
            continue  # workers are whole
        assert after[name] >= amount * (1 - 1e-9) - 1e-3, name


@settings(max_examples=25)
@given(GOALS, INPUTS, st.floats(1, 10))
def test_twice_the_time_halves_the_rates_and_leaves_what_is_kept(
    goal: CrawlGoal, inputs: PlanInputs, times: float
) -> None:
    before = amounts(goal, inputs)
    after = amounts(CrawlGoal(goal.pages, goal.seconds * times, goal.delay, goal.hot_urls), inputs)
    for name in (
        ("hosts", "rate"),
        ("network", "received"),
        ("engine", "cores in use"),
        ("database", "rows written"),
    ):
        assert after[name] * times == pytest.approx(before[name])
    for name in (("store", "archive"), ("engine", "memory"), ("database", "size"), ("store", "S3 requests")):
        assert after[name] == before[name]


@settings(max_examples=25)
@given(GOALS, INPUTS, st.sampled_from([declared.name for declared in fields(PlanInputs)]), st.floats(1.1, 4))
def test_each_input_moves_amounts_in_a_direction(
    goal: CrawlGoal, inputs: PlanInputs, name: str, times: float
) -> None:
    values = {declared.name: getattr(inputs, declared.name) for declared in fields(PlanInputs)}
    values[name] = min(1.0, values[name] * times) if name == "busy" else values[name] * times
    before, after = amounts(goal, inputs), amounts(goal, PlanInputs.of(values))
    for (group, what), amount in before.items():
        if (group, what) in (("workers", "hosts of a worker at once"), ("store", "queues")):
            continue
        allowed = 1e-9 * max(amount, after[group, what]) + 1e-3
        if what not in FALLING.get(name, ()):
            assert after[group, what] >= amount - allowed, (group, what)
        elif name in ("warc_mb", "part_mb") and what.startswith("S3"):
            continue  # parts of a file are whole
        elif name != "host_pages":
            assert after[group, what] <= amount + allowed, (group, what)


@settings(max_examples=25)
@given(GOALS, INPUTS)
def test_the_memory_of_the_engine_is_the_sum_of_its_parts(goal: CrawlGoal, inputs: PlanInputs) -> None:
    plan = amounts(goal, inputs)
    parts = [
        amount for (group, name), amount in plan.items() if group == "engine" and name.startswith("memory, ")
    ]
    assert plan["engine", "memory"] == pytest.approx(sum(parts))
    assert 0 <= waiting_in_engine(goal, inputs) <= goal.pages * inputs.known_urls


def test_the_plan_of_15_billion_pages_in_four_weeks() -> None:
    goal = CrawlGoal(15e9, 28 * DAY, 1.0)
    plan = amounts(
        goal,
        PlanInputs.of(
            {"known_urls": 1, "seen_bytes": 8.5, "duplicate_bytes": 200, "cpu_ms": 4.8, "tls_ms": 0}
        ),
    )
    assert goal.rate == pytest.approx(6200.4, abs=0.1)
    assert plan["hosts", "due at once, at least"] == pytest.approx(6200.4, abs=0.1)
    assert plan["engine", "memory, seen set"] == pytest.approx(127.5e9)
    assert plan["engine", "memory, duplicates"] == pytest.approx(3e12)
    assert plan["workers", "cores in use"] == pytest.approx(29.8, abs=0.1)
    # 31.5 KB a page in bits
    assert plan["network", "received"] == pytest.approx(6200.4 * 31_500 * 8, rel=1e-4)


def test_a_long_delay_needs_as_many_hosts() -> None:
    plan = amounts(CrawlGoal(6000 * 100, 100, delay=30), PlanInputs())
    assert plan["hosts", "due at once, at least"] == 180_000
    assert plan["hosts", "most pages of a host"] == pytest.approx(100 / 30)


@cases(
    ("wrong", "message"),
    [
        ({"pages_kb": 3}, "there is no pages_kb; there are page_kb, "),
        ({"page_kb": "30"}, "page_kb: '30' is not a number"),
        ({"page_kb": True}, "page_kb: True is not a number"),
        ({"page_kb": math.nan}, "page_kb: nan is not a number"),
        ({"page_kb": -1}, "page_kb: -1 is less than 0"),
        ({"known_urls": 0.5}, "known_urls: 0.5 is less than 1"),
        ({"worker_pages": 0}, "worker_pages: 0 is less than 0.001"),
        ({"busy": 1.5}, "busy: 1.5 is more than the whole"),
    ],
)
def test_a_wrong_input_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        PlanInputs.of(wrong)
    assert message in str(error.value)


@cases(("pages", "seconds"), [(0, 1), (1, 0), (-1, 1), (1, 5e-324), (1e31, 1), (math.inf, 1), (1, math.nan)])
def test_a_wrong_goal_is_refused(pages: float, seconds: float) -> None:
    with pytest.raises(ValueError, match="pages|seconds"):
        CrawlGoal(pages, seconds)


def test_a_delay_that_nobody_means_is_refused() -> None:
    with pytest.raises(ValueError, match="less than a microsecond"):
        CrawlGoal(1, 1, delay=5e-324)


def test_each_input_has_a_unit_a_meaning_and_a_source() -> None:
    for declared in fields(PlanInputs):
        assert all(declared.metadata[name] for name in ("unit", "meaning", "source")), declared.name
