"""The outbox in SQLite and PostgreSQL: nothing is lost, and only what was not sent is sent again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st

from tests.metadata import NOW, at
from tests.postgres import PostgresServer
from tests.together import together
from webcrawl.alarms.outbox import CLAIM_SECONDS, MOST_ATTEMPTS, Notice, Outbox, pause
from webcrawl.alarms.stuck import StuckPage, StuckPages

CLAIM = timedelta(seconds=CLAIM_SECONDS)


@pytest.fixture
def outbox(uri: str) -> Iterator[Outbox]:
    with Outbox(uri) as box:
        yield box


def a_notice(key: str = "a", created: datetime = NOW) -> Notice:
    return Notice(key, "WORKER", f"title {key}", "lines\nof text", created, crawl="news", link="http://here/")


def test_key_is_stored_once(outbox: Outbox) -> None:
    assert outbox.put(a_notice(), ["one"])
    assert not outbox.put(a_notice(created=at(1)), ["two"])
    assert outbox.put(a_notice("b"))
    assert [(one.notice, one.targets) for one in outbox.notices()] == [
        (a_notice("b"), None),
        (a_notice(), ("one",)),
    ]


def test_each_target_gets_a_notice_once(outbox: Outbox) -> None:
    outbox.put(a_notice(), ["one", "two"])
    (claimed,) = outbox.due(NOW, ["one", "two", "three"])
    assert (claimed.targets, claimed.attempts) == (("one", "two"), 0)
    outbox.sent(claimed.id, "one", at(1))
    outbox.failed(claimed.id, "two: connection refused", at(1))
    (waiting,) = outbox.notices(unsent=True)
    assert (waiting.targets, waiting.attempts, waiting.error) == (("two",), 1, "two: connection refused")
    assert outbox.due(at(1), ["one", "two"]) == []
    later = at(1) + pause(1)
    assert outbox.due(later, ["one"]) == []
    assert [one.targets for one in outbox.due(later, ["two"])] == [("two",)]
    outbox.sent(claimed.id, "two", later)
    (done,) = outbox.notices()
    assert (done.targets, done.due, done.error, done.sent) == ((), None, None, later)
    assert outbox.due(at(9999), ["one", "two"]) == [] == outbox.notices(unsent=True)


def test_notice_without_targets_goes_to_those_of_its_first_sender(outbox: Outbox) -> None:
    outbox.put(a_notice())
    (claimed,) = outbox.due(NOW, ["one"])
    assert claimed.targets == ("one",)
    assert outbox.due(NOW + CLAIM, ["two"]) == []


def test_claim_of_a_dead_process_ends(outbox: Outbox) -> None:
    outbox.put(a_notice(), ["one"])
    assert len(outbox.due(NOW, ["one"])) == 1
    assert outbox.due(NOW + CLAIM - timedelta(seconds=1), ["one"]) == []
    assert len(outbox.due(NOW + CLAIM, ["one"])) == 1


def test_attempts_end_and_begin_again_by_hand(outbox: Outbox) -> None:
    outbox.put(a_notice(), ["one"])
    (claimed,) = outbox.due(NOW, ["one"])
    for _ in range(MOST_ATTEMPTS):
        assert outbox.due(at(10**6), ["one"]) or True
        outbox.failed(claimed.id, "refused", NOW)
    assert outbox.due(at(10**7), ["one"]) == []
    (given_up,) = outbox.notices(unsent=True)
    assert (given_up.attempts, given_up.due) == (MOST_ATTEMPTS, None)
    assert outbox.retry(at(1)) == 1
    assert [one.attempts for one in outbox.due(at(1), ["one"])] == [0]


def test_only_old_and_sent_notices_are_forgotten(outbox: Outbox) -> None:
    for key in ("old", "new", "unsent"):
        outbox.put(a_notice(key), ["one"])
    numbers = {one.notice.key: one.id for one in outbox.due(NOW, ["one"])}
    outbox.sent(numbers["old"], "one", at(1))
    outbox.sent(numbers["new"], "one", at(9))
    assert outbox.forget(at(5)) == 1
    assert sorted(one.notice.key for one in outbox.notices()) == ["new", "unsent"]


def test_pauses_grow_to_an_hour() -> None:
    pauses = [pause(attempts).total_seconds() for attempts in range(1, MOST_ATTEMPTS)]
    assert pauses[:4] == [10, 20, 40, 80] and pauses == sorted(pauses) and pauses[-1] == 3600
    assert 3.5 < sum(pauses) / 86400 < 4


def _claim(uri: str, folder: str, start: object) -> None:
    start.wait(60)  # type: ignore[attr-defined]
    with Outbox(uri) as outbox:
        for _ in range(5):
            for one in outbox.due(NOW, ["one"]):
                with (Path(folder) / str(one.id)).open("x"):
                    pass


def test_concurrent_senders_never_claim_the_same_notice(uri: str, tmp_path: Path) -> None:
    with Outbox(uri) as outbox:
        for number in range(20):
            outbox.put(a_notice(str(number)), ["one"])
    claimed = tmp_path / "claimed"
    claimed.mkdir()
    together(2, _claim, uri, str(claimed))
    assert len(list(claimed.iterdir())) == 20


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abc"), st.just("")),
        st.tuples(st.just("send"), st.sampled_from(["up", "down"]), st.sampled_from(["up", "down"])),
        st.tuples(st.just("die"), st.sampled_from(["before", "after"]), st.just("")),
        st.tuples(st.just("wait"), st.sampled_from(["5", "60", "4000"]), st.just("")),
    ),
    max_size=25,
)


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_whatever_fails_each_target_gets_each_notice(steps: list[tuple[str, str, str]]) -> None:
    """Two targets that are up or down; a sender that dies before or after a target got a notice.

    A target gets a notice twice only if a sender died between sending it and recording that.
    """
    with TemporaryDirectory() as folder, Outbox(f"sqlite:///{folder}/metadata.db") as outbox:
        now, put, got, deaths = NOW, set[str](), list[tuple[str, str]](), 0
        for action, first, second in [*steps, ("wait", "100000", ""), ("send", "up", "up")]:
            if action == "put":
                assert outbox.put(a_notice(first, now), ["one", "two"]) == (first not in put)
                put.add(first)
            elif action == "wait":
                now += timedelta(seconds=float(first))
            elif action == "die":
                for stored in outbox.due(now, ["one", "two"])[:1]:
                    if first == "after":
                        got.append((stored.notice.key, stored.targets[0] if stored.targets else ""))
                        deaths += 1
            else:
                for stored in outbox.due(now, ["one", "two"]):
                    for target in stored.targets or ():
                        if {"one": first, "two": second}[target] == "up":
                            got.append((stored.notice.key, target))
                            outbox.sent(stored.id, target, now)
                        else:
                            outbox.failed(stored.id, "down", now)
        assert set(got) == {(key, target) for key in put for target in ("one", "two")}
        assert len(got) <= len(set(got)) + deaths
        assert outbox.notices(unsent=True) == []


def test_roles_without_create_permission_can_write_existing_tables(postgres: PostgresServer) -> None:
    """With the permissions listed in docs/guide/exports.md."""
    uri = postgres.new_database()
    Outbox(uri).close()
    writer = postgres.as_role(uri, "teller")
    postgres.execute(
        uri,
        "GRANT SELECT ON alarms_version TO teller",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON stuck, notices TO teller",
        "GRANT USAGE ON notices_id_seq TO teller",
    )
    with Outbox(writer) as outbox, StuckPages(writer) as stuck:
        assert outbox.put(a_notice(), ["one"])
        outbox.sent(outbox.due(NOW, ["one"])[0].id, "one", NOW)
        stuck.add([StuckPage("news", "https://example.org/", "DOCUMENT", "broken", NOW, NOW)])
        assert (outbox.forget(at(1)), stuck.remove("news")) == (1, 1)
