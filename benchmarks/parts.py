"""Each part of the work on a page by itself: the results of pytest-benchmark as JSON and as a table.

make bench-micro [ARGS="-k links --json FILE --page FILE"]
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.contender import ROOT
from benchmarks.report import measured_on, page_with, put_between, put_figures

BEGIN, END = "<!-- bench-micro writes from here -->", "<!-- bench-micro writes to here -->"


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
        # the project's options for pytest are meant for tests
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-o",
            "addopts=--import-mode=importlib",
            "benchmarks/micro",
        ]
        command += [f"--benchmark-json={file}", "--benchmark-sort=name", "-k", chosen]
        command += ["--benchmark-columns=min,median,iqr,rounds"]
        if code := subprocess.run(command, cwd=ROOT).returncode:
            raise SystemExit(code)
        told = json.loads(file.read_text())["benchmarks"]
    return [
        Part(
            one["name"].removeprefix("test_").replace("_", " "),
            one["extra_info"]["what"],
            round(1000 * one["stats"]["min"], 4),
            round(1000 * one["stats"]["median"], 4),
            one["stats"]["rounds"],
        )
        for one in told
    ]


def table(parts: list[Part]) -> str:
    """A Markdown table, one line a part."""
    lines = ["| part | what | best, ms | median, ms | rounds |", "|---|---|---:|---:|---:|"]
    for one in parts:
        lines.append(f"| {one.name} | {one.what} | {one.best:.3g} | {one.median:.3g} | {one.rounds:,} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-k", dest="chosen", default="", help="which, as pytest has it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures into this file")
    parser.add_argument(
        "--page", type=page_with(BEGIN), metavar="FILE", help="write the table here, between its marks"
    )
    said = parser.parse_args()
    parts, today = measured(said.chosen), datetime.date.today().isoformat()
    if said.json:
        put_figures(said.json, today, parts=[asdict(one) for one in parts])
    if said.page:
        put_between(said.page, BEGIN, END, f"{measured_on(today)}.\n\n{table(parts)}")


if __name__ == "__main__":
    main()
