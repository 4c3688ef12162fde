"""What is told when: each thing once, grouped, and the same after a watcher was replaced."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.cases import cases
from webcrawl.alarms.judging import (
    CHECKPOINT_SECONDS,
    FIRST_SECONDS,
    HOLDING_SECONDS,
    LOST_SECONDS,
    NEXT_SECONDS,
    STALLED_SECONDS,
    Alarm,
    judge,
)
from webcrawl.alarms.reading import CrawlReading
from webcrawl.alarms.state import WatcherState
from webcrawl.frontier.checkpoint.periodic import CheckpointState

START = 1_000_000.0
STEP = 5.0


def readings(*changes: dict[str, Any], start: float = START) -> list[CrawlReading]:
    """A reading each STEP seconds; each change is kept, and `times` repeats it."""
    found, fields, now = [], dict[str, Any](), start
    for change in changes:
        times = change.pop("times", 1)
        fields |= change
        for _ in range(times):
            now += STEP
            found.append(CrawlReading(now=now, engine_now=now + 7, **fields))
    return found


def told(all_readings: list[CrawlReading]) -> list[Alarm]:
    state, alarms = WatcherState(), []
    for reading in all_readings:
        state, more = judge(state, reading)
        alarms += more
    return alarms


def kinds(all_readings: list[CrawlReading]) -> list[str]:
    return [alarm.kind for alarm in told(all_readings)]


def test_checkpoints_that_cannot_be_written_are_told_once_until_one_is() -> None:
    failing = CheckpointState(
        every=3_600, since=START, at=START, uri="s3://a/b", failed=START + 7, error="no access"
    )
    written = CheckpointState(every=3_600, since=START, at=START + 500, uri="s3://a/c")
    long = int(CHECKPOINT_SECONDS / STEP) + 3
    assert kinds(readings({"checkpoint": failing, "times": long - 6})) == []
    (alarm,) = told(readings({"checkpoint": failing, "times": 3 * long}))
    assert (alarm.kind, alarm.title) == ("CHECKPOINT", "no checkpoint can be written")
    assert alarm.text.startswith("no access\nThe last one is 0.1 hours old: s3://a/b\n")
    later = replace(failing, failed=START + 900)
    changes = [
        {"checkpoint": failing, "times": long},
        {"checkpoint": written},
        {"checkpoint": later, "times": 5 * long},
    ]
    assert kinds(readings(*changes)) == ["CHECKPOINT"] * 2
    often = replace(failing, every=20.0, at=0.0)
    (soon,) = told(readings({"checkpoint": often, "times": 6}))
    assert "There is none." in soon.text


def test_a_quiet_crawl_is_told_nothing() -> None:
    assert (
        kinds([replace(one, fine=number) for number, one in enumerate(readings({"open": 9, "times": 999}))])
        == []
    )


def test_a_stall_is_told_once_until_the_next_fetch() -> None:
    long = int(STALLED_SECONDS / STEP) + 2
    stalled = {"fine": 3, "open": 9, "times": long}
    assert kinds(readings(dict(stalled))) == ["STALLED"]
    (alarm,) = told(readings(dict(stalled, times=3 * long)))
    assert "10 minutes" in alarm.text and "9 URLs to fetch" in alarm.text
    assert kinds(readings(dict(stalled), {"fine": 4, "times": long})) == ["STALLED", "STALLED"]


@cases("rest", [{"paused": True}, {"open": 0}, {"workers": 0}, {"holding": {"w": "disk full"}}])
def test_a_crawl_that_may_rest_is_not_stalled(rest: dict[str, Any]) -> None:
    long = int(STALLED_SECONDS / STEP) + 2
    found = kinds(readings({"fine": 3, "open": 9, **rest, "times": long}))
    assert "STALLED" not in found
    awake = {"paused": False, "open": 9, "workers": 1, "holding": {}, "times": long // 2}
    assert "STALLED" not in kinds(readings({"fine": 3, "open": 9, **rest, "times": long}, awake))


def test_time_without_a_watcher_is_no_stall() -> None:
    before = readings({"fine": 3, "open": 9, "times": 3})
    after = readings({"fine": 3, "open": 9, "times": 3}, start=START + 9 * STALLED_SECONDS)
    assert kinds(before + after) == []


def test_workers_that_died_together_are_told_together() -> None:
    dead = {"w1": START + 12, "w2": START + 14, "w3": START + 13}
    later = dead | {"w4": START + 45}
    found = told(
        readings({"times": 2}, {"lost": dead, "times": 8, "workers": 2}, {"lost": later, "times": 20})
    )
    assert [alarm.lost for alarm in found] == [("w1", "w2", "w3"), ("w4",)]
    assert found[0].title == "3 workers lost" and "2 other workers" in found[0].text


def test_a_lost_worker_is_told_within_half_a_minute_of_its_death() -> None:
    for death in range(20):
        died = START + 7 + 60 + death
        seen = [
            replace(one, lost={"w": died} if one.engine_now >= died else {})
            for one in readings({"times": 30})
        ]
        state = WatcherState()
        for reading in seen:
            state, alarms = judge(state, reading)
            if alarms:
                break
        assert alarms and reading.engine_now - died <= 2 * LOST_SECONDS + LOST_SECONDS + STEP


def test_a_worker_that_comes_back_in_time_is_not_told() -> None:
    assert kinds(readings({"lost": {"w": START + 5}}, {"lost": {}, "times": 20})) == []


def test_workers_that_hold_are_told_once_until_it_ends() -> None:
    times = int(HOLDING_SECONDS / STEP) + 2
    holding = {
        "holding": {"w1": "S3 is unavailable", "w2": "S3 is unavailable"},
        "workers": 3,
        "times": times,
    }
    (alarm,) = told(readings(dict(holding), dict(holding)))
    assert alarm.title == "2 of 3 workers hold" and alarm.text.count("S3 is unavailable") == 1
    assert kinds(readings(dict(holding), {"holding": {}}, dict(holding))) == ["STORES", "STORES"]


def test_growing_numbers_are_told_when_they_have_doubled() -> None:
    grown = [replace(one, given_up=number) for number, one in enumerate(readings({"times": 5000}))]
    alarms = told(grown)
    assert {alarm.kind for alarm in alarms} == {"HOSTS"}
    numbers = [int(alarm.mark) for alarm in alarms]
    assert numbers[0] == FIRST_SECONDS / STEP + 1
    assert all(after >= 2 * before for before, after in zip(numbers, numbers[1:], strict=False))
    assert len(numbers) <= math.log2(5000) + 1


def test_a_crawl_that_was_cleared_begins_at_zero() -> None:
    times = int(NEXT_SECONDS / STEP) + 2
    found = told(readings({"given_up": 50, "times": 9}, {"given_up": 0}, {"given_up": 2, "times": times}))
    assert [alarm.mark for alarm in found] == ["50", "2"]


def test_stuck_pages_are_told_by_kind() -> None:
    found = told(readings({"untold": {"SCHEMA": 1, "DOCUMENT": 7}, "times": 8}))
    assert [(alarm.kind, alarm.about, alarm.title) for alarm in found[:2]] == [
        ("STUCK", "DOCUMENT", "7 pages that no reader can read"),
        ("SCHEMA", "SCHEMA", "1 page whose items or fields are not as declared"),
    ]


@cases("notes", ["", "{", "[]", '{"seen": "x"}', "null", '{"seen":1,"errors":3}'])
def test_notes_that_cannot_be_read_are_begun_anew(notes: str) -> None:
    assert WatcherState.decoded(notes) == WatcherState()


NUMBERS = st.integers(0, 30)
CHANGES = st.lists(
    st.fixed_dictionaries(
        {
            "wait": st.sampled_from([3, 3, 3, 20, 700]),
            "fine": NUMBERS,
            "bad": NUMBERS,
            "retried": NUMBERS,
            "given_up": st.integers(0, 3),
            "stuck": st.integers(0, 3),
            "open": st.integers(0, 1),
            "paused": st.booleans(),
            "dies": st.integers(0, 2),
            "holds": st.booleans(),
        }
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(CHANGES, st.sets(st.integers(0, 40)))
def test_everything_is_told_once_whoever_watches(changes: list[dict[str, Any]], replaced: set[int]) -> None:
    """The watcher is replaced by one that has only the notes; both tell the same.

    No key is used twice, each lost worker is in one alarm, and all of them are told in the end.
    """
    state = other = WatcherState()
    now, totals, lost, untold, alarms = START, Counter[str](), dict[str, float](), 0, list[Alarm]()
    for number, change in enumerate([*changes, *({"wait": 5, "dies": 0, "stuck": 0} for _ in range(8))]):
        now += change["wait"]
        for name in ("fine", "bad", "retried", "given_up"):
            totals[name] += change.get(name, 0)
        lost |= {f"w{number}-{one}": now + 7 for one in range(change["dies"])}
        untold += change["stuck"]
        reading = CrawlReading(
            now=now,
            engine_now=now + 7,
            open=change.get("open", 0),
            paused=change.get("paused", False),
            holding={"w": "full"} if change.get("holds") else {},
            lost=dict(lost),
            untold={"DOCUMENT": untold},
            **totals,
        )
        state, found = judge(state, reading)
        other, same = judge(other, reading)
        assert (state, found) == (other, same)
        if number in replaced:
            other = WatcherState.decoded(other.encoded())
            assert json.loads(other.encoded())
        alarms += found
        for alarm in found:
            for worker in alarm.lost:
                del lost[worker]
            untold = 0 if alarm.about else untold
    assert [key for key, times in Counter((a.kind, a.mark) for a in alarms).items() if times > 1] == []
    assert lost == {}
