"""When a worker may use its leases, lease more hosts, and reap expired leases of other workers."""

from __future__ import annotations

import math

import pytest

from webcrawl.http.requests import STRAY_SECONDS
from webcrawl.worker.leasing import LeaseSafety

LEASE = 10.0
DELAY = 1.0


def test_lease_is_used_for_less_than_its_duration() -> None:
    safety = LeaseSafety(LEASE, DELAY)
    assert 100.0 < safety.until(100.0) < 100.0 + LEASE
    assert safety.until(100.0) + safety.answer_seconds == pytest.approx(100.0 + LEASE)


def test_request_sent_again_after_a_cut_comes_before_another_worker_asks() -> None:
    for lease in (0.5, 4.0, 60.0):
        safety = LeaseSafety(lease, DELAY)
        given_up = safety.until(0.0) + safety.answer_seconds  # by the system, see the download handler
        arrives = given_up + STRAY_SECONDS
        assert arrives + safety.answer_seconds <= lease + safety.reaped_seconds + 1e-9


def test_restart_of_the_engine_delays_leasing_and_reaping() -> None:
    safety = LeaseSafety(LEASE, DELAY)
    assert safety.may_lease(0.0)
    safety.leave_to_others(100.0)
    assert not safety.may_lease(100.0 + safety.answer_seconds)
    assert safety.may_lease(100.0 + safety.answer_seconds + DELAY)
    assert not safety.may_reap(109.0, last=108.0)
    assert safety.may_reap(110.0, last=109.0)


def test_outage_delays_reaping_until_others_can_extend_their_leases() -> None:
    safety = LeaseSafety(LEASE, DELAY)
    assert safety.may_reap(100.0, last=-math.inf), "there is no outage before the first heartbeat"
    assert safety.may_reap(102.0, last=100.0)
    assert not safety.may_reap(108.0, last=102.0)
    assert not safety.may_reap(117.0, last=115.0)
    assert safety.may_reap(118.0, last=117.0)
