"""Tables of what other programs read in the outputs of a crawl, beside what is true."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.command import table
from benchmarks.contender import PEERS, PROGRAMS, Contender

READERS = Contender(
    "readers", "datatrove, datasets, DuckDB with Iceberg, and Spark", lambda task: [], "readers"
)


def read_elsewhere(program: str, asked: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Runs a program of `contenders` with other libraries; returns what it reads, by program and question."""
    READERS.prepare()
    command = [PEERS / "readers" / "bin" / "python", PROGRAMS / program, json.dumps(asked)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def report(truth: Mapping[str, Any], read: Mapping[str, Mapping[str, Any]]) -> int:
    """Prints a row for each question and a column for each program that answers one; returns the wrong answers."""
    rows = [
        [question, _shown(right), *(_shown(answers.get(question, "")) for answers in read.values())]
        for question, right in truth.items()
    ]
    print(table("|".join(["what", "truth:", *(f"{name}:" for name in read)]), rows))
    wrong = [
        f"{program}: {question}: {_shown(answer)} instead of {_shown(truth[question])}"
        for program, answers in read.items()
        for question, answer in answers.items()
        if answer != truth[question]
    ]
    print("\n".join(f"WRONG {line}" for line in wrong) or "Wrong: nothing", flush=True)
    return len(wrong)


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def files(folder: Path, pattern: str) -> list[str]:
    """The names of the files below a folder, in order."""
    return sorted(str(path) for path in folder.rglob(pattern))
