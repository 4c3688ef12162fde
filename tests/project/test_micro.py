"""The microbenchmarks run without errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_each_microbenchmark_runs_once() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-o", "addopts=--import-mode=importlib", "benchmarks/micro", "-q"]
        + ["--benchmark-disable", "-p", "no:cacheprovider"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ran.returncode == 0, ran.stdout
    assert re.match(r"(19|[2-9]\d) passed in", ran.stdout.splitlines()[-1]), "some are skipped or not found"
