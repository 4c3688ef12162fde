"""When a worker may use its leases, lease further hosts, and take back those of others."""

from __future__ import annotations

import math

import pytest

from webcrawl.worker.lease_safety import LeaseSafety

LEASE = 10.0
DELAY = 1.0


def test_a_lease_is_used_for_less_than_it_lasts() -> None:
    safety = LeaseSafety(LEASE, DELAY)
    assert 100.0 < safety.until(100.0) < 100.0 + LEASE
    assert safety.until(100.0) + safety.answer_seconds == pytest.approx(100.0 + LEASE)


def test_a_restarted_engine_is_left_to_the_holders_of_its_leases() -> None:
    safety = LeaseSafety(LEASE, DELAY)
    assert safety.may_lease(0.0)
    safety.leave_to_others(100.0)
    assert not safety.may_lease(100.0 + safety.answer_seconds)
    assert safety.may_lease(100.0 + safety.answer_seconds + DELAY)
    assert not safety.may_reap(109.0, last=108.0)
    assert safety.may_reap(110.0, last=109.0)


def test_after_an_outage_other_workers_may_extend_before_their_leases_are_taken_back() -> None:
    safety = LeaseSafety(LEASE, DELAY)
    assert safety.may_reap(100.0, last=-math.inf), "the first heartbeat follows no outage"
    assert safety.may_reap(102.0, last=100.0)
    assert not safety.may_reap(108.0, last=102.0)
    assert not safety.may_reap(117.0, last=115.0)
    assert safety.may_reap(118.0, last=117.0)
