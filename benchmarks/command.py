"""What the benchmarks share: arguments, commands of this project, tables, and files of figures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


SETTINGS = ([], "further settings, each as NAME=VALUE")
"""The option `--set`, for `web_crawl`."""


def command_line(
    description: str | None, only: Collection[str] = (), *, json: bool = False, **options: object
) -> argparse.ArgumentParser:
    """Returns a parser that prints the docstring of a benchmark as it is.

    `only`: what `--only` selects from, by default all. `json`: it has `--json`, for `write_figures`. `options` are
    names -> defaults, or tuples of a default, a sentence, and perhaps the choices. The type is that of the default;
    a type as default stands for an option that is None if it is not given. True makes a flag `--no-NAME`.
    """
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=description, formatter_class=form)
    if only:
        names = ", ".join(only)
        parser.add_argument("--only", type=names_of(only), default=list(only), metavar="NAME,...", help=names)
    if json:
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures into this file")
    for name, given in options.items():
        default, what, choices = (*given, None, None)[:3] if isinstance(given, tuple) else (given, None, None)
        words: dict[str, Any] = {"dest": name, "default": default, "help": what}
        if isinstance(default, bool):
            words["action"] = "store_false" if default else "store_true"
        elif isinstance(default, list):
            words["nargs"] = "*"
        else:
            is_type = isinstance(default, type)
            words |= {"type": default if is_type else type(default), "choices": choices}
            words["default"] = None if is_type else default
        parser.add_argument("--" + "no-" * (default is True) + name.replace("_", "-"), **words)
    return parser


def names_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """A type of argument: some of the known names, separated by commas."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(
                f"there is no {', '.join(unknown)}; there are {', '.join(known)}"
            )
        return names

    return parse


def setting_options(settings: Mapping[str, object]) -> list[str]:
    """Settings as options of Scrapy's command line."""
    options = []
    for name, value in settings.items():
        options += ["-s", f"{name}={json.dumps(value) if isinstance(value, dict) else value}"]
    return options


def scrapy(*words: str | Path, **settings: object) -> list[str]:
    """The words of a command of this project, with settings."""
    return [sys.executable, "-m", "scrapy", *map(str, words), *setting_options(settings)]


def broad(seeds: str, scope: str, settings: Mapping[str, object], workers: int = 1) -> list[str]:
    """The command of a crawl of loopback addresses, links to which are refused by default."""
    verb = ["workers", str(workers)] if workers > 1 else ["crawl"]
    words = [*verb, "broad", "-a", f"seeds={seeds}", "-a", f"scope={scope}"]
    return scrapy(*words, **{"ALLOWED_NETWORKS": "127.0.0.0/8", **settings})


def web_crawl(
    home: Path, seeds: Iterable[str], names: int, further: Iterable[str] = (), **settings: object
) -> list[str]:
    """A crawl with `scope=web`: its seeds and data are in a folder, and `names` is the port of the nameserver.

    `further` settings, each as NAME=VALUE, take precedence.
    """
    (home / "seeds").write_text("\n".join(seeds))
    own = {"DATA_DIR": home / "data", "DNS_SERVERS": f"127.0.0.1:{names}"}
    return broad(
        f"@{home / 'seeds'}", "web", {**own, **settings, **dict(pair.split("=", 1) for pair in further)}
    )


def seconds_of(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long some work takes; with `time.process_time`, its processor time."""
    began = clock()
    work()
    return clock() - began


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def table(heads: str, rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table. Bars separate the heads; a colon after a head aligns its column to the right."""
    columns = [head.strip() for head in heads.split("|")]
    lines = [
        f"| {' | '.join(head.removesuffix(':') for head in columns)} |",
        f"|{'|'.join('---:' if head.endswith(':') else '---' for head in columns)}|",
    ]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def records_table(records: Sequence[Any]) -> str:
    """A Markdown table of dataclasses of one kind: a column for each field, and of a list its length."""
    names = [field.name for field in fields(records[0])] if records else []
    rows = [[_cell(getattr(record, name)) for name in names] for record in records]
    heads = [name + ("" if isinstance(getattr(records[0], name), str) else ":") for name in names]
    return table("|".join(head.replace("_", " ") for head in heads), rows)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if isinstance(value, list):
        return str(len(value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def machine() -> dict[str, str | int]:
    """The properties of the machine on which the figures depend."""
    model, memory = platform.processor() or platform.machine(), 0
    if (cpus := Path("/proc/cpuinfo")).exists():
        names = [line for line in cpus.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9)
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": memory,
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
    }


def write_figures(file: Path | None, **figures: object) -> None:
    """Writes figures and dataclasses as JSON, with the day and the machine; does nothing without a file."""
    if file:
        about = {"date": date.today().isoformat(), "machine": machine()}
        file.write_text(json.dumps({**about, **figures}, indent=1, default=asdict) + "\n")
