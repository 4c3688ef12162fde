"""Kills and pauses workers and Valkey at random during a crawl of hundreds of hosts: see benchmarks/chaos.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.chaos import run


@pytest.mark.slow
@pytest.mark.timeout(0)  # --chaos-seconds limits it
def test_no_url_is_lost_and_no_host_is_requested_too_early(
    pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    verdict = run(tmp_path, seconds=pytestconfig.getoption("--chaos-seconds"))
    table = verdict.table()
    print(table)
    assert not verdict.faults(), table
    troubles = verdict.troubles
    assert troubles.worker_kills and troubles.engine_kills and troubles.pauses, table
    assert verdict.leases_expired, table
