"""Workers and Valkey are killed and stopped at random under a crawl of hundreds of hosts: see benchmarks/chaos.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.chaos import run


@pytest.mark.slow
@pytest.mark.timeout(0)  # it bounds itself, by --chaos-seconds
def test_nothing_is_lost_and_no_host_is_asked_too_early(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    verdict = run(tmp_path, seconds=pytestconfig.getoption("--chaos-seconds"))
    table = verdict.table()
    print(table)
    assert not verdict.faults(), table
    troubles = verdict.troubles
    assert troubles.worker_kills and troubles.engine_kills and troubles.pauses, table
    assert verdict.leases_expired, table
