"""`scrapy plan`: what it prints, files of inputs, and what it refuses."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from tests.cases import cases
from tests.crawls import CHECKOUT
from webcrawl.commands.plan import Command, shown

GOAL = ("--pages", "15e9", "--weeks", "4")


def plan(*words: str) -> int:
    """Runs the command in this process; returns its exit status."""
    command = Command()
    command.settings = Settings({"DOWNLOAD_DELAY": 1.0, "FRONTIER_HOT_URLS": 1000})
    parser = argparse.ArgumentParser(conflict_handler="resolve")
    command.add_options(parser)
    options, arguments = parser.parse_known_args(words)
    command.run(arguments, options)
    return command.exitcode


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert plan(*words, "--json") == 0
    return json.loads(capsys.readouterr().out)


def amount(printed: Any, group: str, name: str) -> float:
    return float(
        next(need["amount"] for need in printed["plan"] if (need["group"], need["name"]) == (group, name))
    )


def test_the_table_shows_amounts_with_units(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(*GOAL) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^hosts +rate +6,200 pages/s  15,000,000,000 pages in 28 days$", printed, re.MULTILINE)
    assert re.search(r"^store +duplicates +240 GB  ", printed, re.MULTILINE)
    assert not re.search(r"\bnan\b|\binf\b", printed)


def test_days_options_and_settings_reach_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    printed = as_json(capsys, "--pages", "30e9", "--days", "30", "--delay", "5", "--page-kb", "100")
    assert amount(printed, "hosts", "rate") == pytest.approx(11_574.07, abs=0.01)
    assert amount(printed, "hosts", "due at once, at least") == pytest.approx(57_870.4, abs=0.1)
    assert printed["inputs"]["page_kb"] == 100 and printed["goal"]["hot_urls"] == 1000


def test_a_file_replaces_inputs_and_options_come_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "measured.json"
    file.write_text('{"page_kb": 50, "cpu_ms": 3}')
    inputs = as_json(capsys, *GOAL, "--measured", str(file), "--cpu-ms", "4")["inputs"]
    assert (inputs["page_kb"], inputs["cpu_ms"]) == (50, 4)


def test_the_inputs_are_printed_with_their_sources(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {row["name"]: row for row in as_json(capsys, "--inputs", "--page-kb", "50")}
    assert rows["page_kb"]["source"] == "given" and "IRLbot" in rows["known_urls"]["source"]
    assert plan("--inputs") == 0 and "seen_bytes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "it must be a JSON object"),
        ("{", "cannot read it"),
        ('{"pages_kb": 1}', "there is no pages_kb"),
        ('{"page_kb": "much"}', "page_kb: 'much' is not a number"),
        ('{"page_kb": NaN}', "page_kb: nan is not a number"),
        ('{"busy": 2}', "busy: 2 is more than the whole"),
        ("[" * 100_000, "cannot read it"),
    ],
)
def test_a_wrong_file_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "measured.json"
    file.write_text(text)
    assert plan(*GOAL, "--measured", str(file)) == 1
    error = capsys.readouterr().err
    assert error.startswith("scrapy plan: --measured") and str(file) in error and message in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "state the number of pages and the time"),
        (("--pages", "1e9"), "state the number of pages and the time"),
        (("--pages", "0", "--weeks", "1"), "pages: 0 is less than 1"),
        (("--pages", "1", "--weeks", "0"), "--weeks and --days: the time must be at least a second"),
        ((*GOAL, "--host-pages", "0.5"), "host_pages: 0.5 is less than 1"),
        ((*GOAL, "--measured", "/nowhere/file"), "cannot read it"),
    ],
)
def test_a_wrong_plan_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert plan(*words) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [("--pages", "many"), ("--pages", "-1"), ("--delay", "nan"), ("--days", "inf")]
)
def test_an_option_that_is_no_number_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit):
        plan(*words)
    assert f"{words[1]!r} is not a number from 0" in capsys.readouterr().err


def test_a_reader_may_close_the_pipe() -> None:
    command = f"{sys.executable} -m webcrawl.console plan --inputs | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, cwd=CHECKOUT)
    assert done.stdout.startswith("input") and done.stderr == ""


def test_arguments_are_refused() -> None:
    with pytest.raises(UsageError):
        plan("15e9")


@cases(
    ("value", "unit", "text"),
    [
        (0.0, "bytes", "0 B"),
        (999, "bytes", "999 B"),
        (127.5e9, "bytes", "128 GB"),
        (3e12, "bytes", "3 TB"),
        (1.56e9, "bits/s", "1.56 Gbit/s"),
        (5e18, "bytes", "5e+18 B"),
        (6200.4, "pages/s", "6,200 pages/s"),
        (2.7899, "cores", "2.79 cores"),
        (0.01141, "cores", "0.0114 cores"),
        (1.0, "workers", "1 worker"),
        (1.0, "pages/s", "1 pages/s"),
        (33.0, "workers", "33 workers"),
    ],
)
def test_amounts_are_short(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text


def test_the_page_on_scale_has_the_tables_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    four_weeks = as_json(capsys, *GOAL)["plan"]
    thirty_days = as_json(capsys, "--pages", "30e9", "--days", "30")["plan"]
    rows = [
        f"| {need['group']} | {need['name']} | {shown(need['amount'], need['unit'])} | "
        f"{shown(other['amount'], other['unit'])} |"
        for need, other in zip(four_weeks, thirty_days, strict=True)
    ]
    page = (CHECKOUT / "docs" / "scale.md").read_text()
    assert "\n".join(rows) in page
