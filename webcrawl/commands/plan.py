"""`scrapy plan`: prints the machines that a crawl needs for a number of pages in a given time."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.config import read
from webcrawl.config.program import as_typed, program
from webcrawl.crawler.command import drop_output, table
from webcrawl.crawler.crawl_settings import completed
from webcrawl.errors import ConfigurationError
from webcrawl.policies.machine_plan import (
    DAY,
    CrawlGoal,
    MachineNeed,
    PlanInputs,
    check_amount,
    figure,
    machine_plan,
)

_SCALES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SCALED = {"bytes": "B", "bits/s": "bit/s"}
_INPUTS = fields(PlanInputs)


class Command(ScrapyCommand):
    """Only computes: it opens no crawl and sends no request."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "[options] --pages NUMBER --weeks NUMBER"

    def short_desc(self) -> str:
        return "Compute the machines for a crawl of many pages"

    def long_desc(self) -> str:
        return (
            "Compute workers, engine, network, store and database for a number of pages in a given time, from measured "
            "figures, which options or a file can replace"
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--pages", type=_amount("pages"), metavar="NUMBER", help="pages to fetch, such as 15e9"
        )
        time = parser.add_mutually_exclusive_group()
        time.add_argument(
            "--weeks", type=_amount("weeks"), metavar="NUMBER", help="time for all pages, in weeks"
        )
        time.add_argument(
            "--days", type=_amount("days"), metavar="NUMBER", help="time for all pages, in days"
        )
        parser.add_argument(
            "--delay",
            type=_amount("delay"),
            metavar="SECONDS",
            help="time between two requests to a host, by default DOWNLOAD_DELAY",
        )
        parser.add_argument(
            "--hot-urls",
            type=_amount("hot-urls"),
            metavar="NUMBER",
            help="most queued URLs of a host in the engine, 0 for any number, by default FRONTIER_HOT_URLS",
        )
        parser.add_argument(
            "--measured",
            type=Path,
            metavar="FILE",
            help="JSON file with inputs of your own, by the names that --inputs prints",
        )
        parser.add_argument("--inputs", action="store_true", help="print the inputs with their sources")
        parser.add_argument("--json", action="store_true", help="print JSON")
        inputs = parser.add_argument_group("inputs")
        for declared in _INPUTS:
            name, about = declared.name.replace("_", "-"), declared.metadata
            inputs.add_argument(
                f"--{name}",
                type=_amount(name),
                metavar="NUMBER",
                help=f"{about['unit']} {about['meaning']}, by default {declared.default:g}",
            )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if args:
            raise UsageError("the command takes only options")
        try:
            self._print(opts)
            sys.stdout.flush()
        except BrokenPipeError:
            drop_output()
        except (ConfigurationError, ValueError) as error:
            print(f"{program()} plan: {as_typed(error)}", file=sys.stderr)
            self.exitcode = 1

    def _print(self, opts: argparse.Namespace) -> None:
        inputs = _inputs(opts)
        if opts.inputs:
            _print_inputs(inputs, as_json=opts.json)
            return
        goal = self._goal(opts)
        needs = machine_plan(goal, inputs)
        if opts.json:
            plan = [need._asdict() for need in needs]
            print(json.dumps({"goal": asdict(goal), "inputs": asdict(inputs), "plan": plan}, indent=2))
        else:
            _print_plan(needs)

    def _goal(self, opts: argparse.Namespace) -> CrawlGoal:
        if opts.pages is None or (opts.weeks is None and opts.days is None):
            raise ConfigurationError("state the number of pages and the time, such as --pages 15e9 --weeks 4")
        days = 7 * opts.weeks if opts.days is None else opts.days
        if days * DAY < 1:
            raise ConfigurationError("--weeks and --days: the time must be at least a second")
        assert self.settings is not None
        settings = completed(self.settings)
        delay = read(settings, "DOWNLOAD_DELAY") if opts.delay is None else opts.delay
        hot_urls = read(settings, "FRONTIER_HOT_URLS") if opts.hot_urls is None else opts.hot_urls
        return CrawlGoal(opts.pages, days * DAY, delay, hot_urls)


def _amount(name: str) -> Callable[[str], float]:
    """Returns the parser of an option whose value is a number from 0."""

    def parse(text: str) -> float:
        try:
            value = float(text)
            check_amount(name, value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0") from error
        return value

    return parse


def _inputs(opts: argparse.Namespace) -> PlanInputs:
    """Returns the inputs of the file and of the options; an option replaces the value of the file."""
    given = _read(opts.measured) if opts.measured else {}
    options = {declared.name: getattr(opts, declared.name) for declared in _INPUTS}
    try:
        # checks the file alone first, so that the message is about the file
        PlanInputs.of(given)
    except ValueError as error:
        raise ConfigurationError(f"--measured {opts.measured}: {error}") from error
    return PlanInputs.of({**given, **{name: value for name, value in options.items() if value is not None}})


def _read(path: Path) -> dict[str, Any]:
    try:
        given = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"--measured {path}: cannot read it ({error})") from error
    if not isinstance(given, dict):
        raise ConfigurationError(f'--measured {path}: it must be a JSON object, such as {{"page_kb": 30}}')
    return given


def _print_plan(needs: list[MachineNeed]) -> None:
    rows = [(need.group, need.name, shown(need.amount, need.unit), need.arithmetic) for need in needs]
    heads = ("of", "what", "amount", "by")
    for line in table(heads, rows, right=("amount",)):
        print(line)


def _print_inputs(inputs: PlanInputs, *, as_json: bool) -> None:
    rows = list(_rows(inputs))
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    heads = ("input", "value", "unit", "meaning", "source")
    cells = [(row["name"], f"{row['value']:g}", row["unit"], row["meaning"], row["source"]) for row in rows]
    for line in table(heads, cells, right=("value",)):
        print(line)


def _rows(inputs: PlanInputs) -> Iterator[dict[str, Any]]:
    for declared in _INPUTS:
        about, value = declared.metadata, getattr(inputs, declared.name)
        source = about["source"] if value == declared.default else "given"
        yield {
            "name": declared.name,
            "value": value,
            "unit": about["unit"],
            "meaning": about["meaning"],
            "source": source,
        }


def shown(amount: float, unit: str) -> str:
    """Returns an amount with its unit: bytes and bits by powers of a thousand, other numbers with commas."""
    if unit not in _SCALED:
        is_noun = unit.endswith("s") and "/" not in unit
        return f"{figure(amount)} {unit[:-1] if amount == 1 and is_noun else unit}"
    scale, prefix = next(((scale, prefix) for scale, prefix in _SCALES if amount >= scale), (1.0, ""))
    return (
        f"{amount / scale:.3g} {prefix}{_SCALED[unit]}" if amount < 1e18 else f"{amount:.3g} {_SCALED[unit]}"
    )
