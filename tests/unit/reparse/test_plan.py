"""The plan of a reparse gives each page to one process, until it is done."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from webcrawl.errors import StoreError
from webcrawl.reparse.plan import BLOCK, Plan, Reading, Work, facts_of, remove
from webcrawl.stores.reread_rows import ResponseLocation

steps = st.lists(st.sampled_from(["take", "settle", "kill"]) | st.integers(0, 3), max_size=25)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 5 * BLOCK), steps)
def test_each_page_is_given_out_until_it_is_done(tmp_path: Path, number: int, some: list[str | int]) -> None:
    path = tmp_path / "plan.db"
    remove(path)
    urls = [f"u{n}" for n in range(number)]
    plan = Plan(path)
    plan.make((ResponseLocation(url, "file", 0) for url in urls), {"pages": number}, None)
    plan.begin()
    done, held, given_out, readings = set[str](), list[Work](), set[str](), dict[str, Reading]()
    for step in [*some, "kill"]:
        if step == "take":
            taken = plan.take()
            assert not given_out & {work.url for work in taken}, "two processes have the same page"
            assert not done & {work.url for work in taken}
            held += taken
            given_out |= {work.url for work in taken}
        elif step == "kill":
            plan.close()
            plan = Plan(path)
            plan.begin()
            held, given_out = [], set()
        else:
            ended, held = held[: len(held) // 2 + 1], held[len(held) // 2 + 1 :]
            readings |= {work.url: Reading(1, work.position) for work in ended[::2]}
            plan.settle(
                {work.position: readings.get(work.url) for work in ended}, {}, Counter(done=len(ended))
            )
            done |= {work.url for work in ended}
        assert plan.left() == number - len(done)
    while taken := plan.take():
        assert [work.url for work in taken] == sorted((work.url for work in taken), key=urls.index)
        plan.settle(dict.fromkeys(work.position for work in taken), {}, Counter(done=len(taken)))
    assert (plan.left(), plan.counts().get("done", 0)) == (0, number)
    assert plan.is_resumed
    assert plan.readings([*urls, "other"]) == readings
    plan.close()


def test_facts_and_failures_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "plan.db"
    with Plan(path) as plan:
        assert not plan.is_made
        plan.make(
            [ResponseLocation("u", "file", 0)],
            {"pages": 1, "not_archived": 2, "no_response": 3},
            "parse_shop",
        )
        plan.settle({1: None}, {"u": "damaged"}, Counter(failed=1, rows=0, links=5, texts_changed=4))
        plan.finish("2026-02-03T04:05:06+00:00")
    with Plan(path) as plan:
        assert (plan.is_made, plan.callback, plan.is_resumed) == (True, "parse_shop", False)
        assert facts_of(plan) == {
            **{"pages": 1, "not_archived": 2, "no_response": 3, "left": 0, "rows": 0, "failed": 1},
            "failures": {"u": "damaged"},
            "texts_changed": 4,
            "marks_changed": 0,
            "counts": {"links": 5},
            "finished_at": "2026-02-03T04:05:06+00:00",
        }


def test_a_plan_is_made_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    def broken() -> object:
        yield ResponseLocation("u", "file", 0)
        raise StoreError("the database is gone")

    with Plan(tmp_path / "plan.db") as plan:
        with pytest.raises(StoreError, match="the database is gone"):
            plan.make(broken(), {}, None)  # type: ignore[arg-type]
        assert not plan.is_made
        assert plan.left() == 0


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "plan.db").write_bytes(b"no database" * 100)
    with pytest.raises(StoreError, match="plan.db: file is not a database"):
        Plan(tmp_path / "plan.db")
