"""Each part of the work on a page by itself: the results of pytest-benchmark as JSON and as a table.

make bench-micro [ARGS="-k links --json FILE --page FILE"]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.command import ROOT, Section, command_line, table

SECTION = Section("bench-micro")
PYTEST = [sys.executable, "-m", "pytest", "-o", "addopts=--import-mode=importlib", "benchmarks/micro"]
"""The project's options for pytest are meant for tests."""


@dataclass(frozen=True, slots=True)
class Part:
    """One part: what is measured, and milliseconds over a number of rounds."""

    name: str
    what: str
    best: float
    median: float
    rounds: int


def measured(chosen: str) -> list[Part]:
    """Runs the parts whose names match; pytest prints its own table meanwhile."""
    with tempfile.TemporaryDirectory(prefix="bench-micro-") as home:
        file = Path(home) / "figures.json"
        command = [*PYTEST, f"--benchmark-json={file}", "--benchmark-sort=name", "-k", chosen]
        command += ["--benchmark-columns=min,median,iqr,rounds"]
        if code := subprocess.run(command, cwd=ROOT).returncode:
            raise SystemExit(code)
        figures = json.loads(file.read_text())["benchmarks"]
    return [
        Part(
            part["name"].removeprefix("test_").replace("_", " "),
            part["extra_info"]["what"],
            round(1000 * part["stats"]["min"], 4),
            round(1000 * part["stats"]["median"], 4),
            part["stats"]["rounds"],
        )
        for part in figures
    ]


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("-k", dest="chosen", default="", help="which, as pytest has it")
    SECTION.add_options(parser)
    options = parser.parse_args()
    parts = measured(options.chosen)
    rows = (
        (part.name, part.what, f"{part.best:.3g}", f"{part.median:.3g}", f"{part.rounds:,}") for part in parts
    )
    text = table("part | what | best, ms: | median, ms: | rounds:", rows)
    SECTION.report(options, text, parts=list(map(asdict, parts)))


if __name__ == "__main__":
    main()
