"""Free memory is that of the machine, or of the container if it has less."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from webcrawl.config import memory
from webcrawl.config.memory import free_memory, usual_memory


@pytest.mark.parametrize(
    ("limit", "expected"), [("max", 4_096_000), ("3000000", 2_000_000), ("9000000", 4_096_000), ("5", 0)]
)
def test_the_smaller_one_counts(tmp_path: Path, limit: str, expected: int) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  9000 kB\nMemAvailable:    4000 kB\n")
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text("1000000\n")
    assert free_memory(tmp_path / "meminfo", tmp_path) == expected


def test_without_such_files_it_is_the_memory_of_the_machine(tmp_path: Path) -> None:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert free_memory(tmp_path / "meminfo", tmp_path) == physical
    assert 0 < free_memory() <= physical


@pytest.mark.parametrize(("free", "usual"), [(0, 256_000_000), (3_000_000_000, 1_500_000_000)])
def test_a_command_takes_half_of_it(monkeypatch: pytest.MonkeyPatch, free: int, usual: int) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: free)
    assert usual_memory() == usual
