"""What the benchmarks share: arguments, commands of this project, and tables and figures that are kept."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def command_line(description: str | None) -> argparse.ArgumentParser:
    """Returns a parser that prints the docstring of a benchmark as it is."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


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


def setting(text: str) -> tuple[str, str]:
    """A type of argument: NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text} is not NAME=VALUE")
    return name, value


def add_settings(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Adds `--set`, which may be repeated."""
    parser.add_argument(
        "--set", type=setting, action="append", default=[], metavar="NAME=VALUE", help=purpose
    )


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
    home: Path, seeds: Iterable[str], names: int, settings: Mapping[str, object], workers: int = 1
) -> list[str]:
    """A crawl with `scope=web`: its seeds and data are in a folder, and `names` is the port of the nameserver."""
    (home / "seeds").write_text("\n".join(seeds))
    own = {"DATA_DIR": home / "data", "DNS_SERVERS": f"127.0.0.1:{names}"}
    return broad(f"@{home / 'seeds'}", "web", {**own, **settings}, workers)


def seconds_of(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long some work takes; with `time.process_time`, its processor time."""
    began = clock()
    work()
    return clock() - began


def print_figure(name: str, value: float, bar: float | None = None) -> None:
    """Prints a line of a list of figures, with the bar that is meant to be reached."""
    print(f"  {name:38} {value:8.3f}" + (f"   bar {bar:g}" if bar else ""), flush=True)


def table(heads: str, rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table. Bars separate the heads; a colon after a head aligns its column to the right."""
    columns = [head.strip() for head in heads.split("|")]
    lines = [
        f"| {' | '.join(head.removesuffix(':') for head in columns)} |",
        f"|{'|'.join('---:' if head.endswith(':') else '---' for head in columns)}|",
    ]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


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


def measured_on(day: str, on: Mapping[str, str | int] | None = None) -> str:
    """When and where figures were measured, as a sentence; on this machine unless another one is given."""
    on = on or machine()
    where = f"{on['cpu']}, {on['cores']} cores, {on['memory_gb']} GB, {on['system']}, Python {on['python']}"
    return f"Measured on {day}: {where}"


def today() -> str:
    return date.today().isoformat()


def write_figures(file: Path, day: str, **figures: object) -> None:
    """Writes figures as JSON, with the day and the machine."""
    file.write_text(json.dumps({"date": day, "machine": machine(), **figures}, indent=1) + "\n")


class Section:
    """The part of a Markdown page that a benchmark writes, between two comments."""

    def __init__(self, benchmark: str) -> None:
        self.begin = f"<!-- {benchmark} writes from here -->"
        self.end = f"<!-- {benchmark} writes to here -->"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Adds `--json` and `--page`."""
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures into this file")
        parser.add_argument(
            "--page",
            type=self.page,
            metavar="FILE",
            help="write the tables between the comments of this page",
        )

    def page(self, text: str) -> Path:
        """A type of argument: a page that has this section. It is checked before an hour of work, not after it."""
        page = Path(text)
        if not page.is_file() or self.begin not in page.read_text():
            raise argparse.ArgumentTypeError(f"{page} is no page with a line {self.begin}")
        return page

    def replace(self, page: Path, text: str) -> None:
        """Replaces the text of the section."""
        before, _, rest = page.read_text().partition(self.begin)
        after = rest.partition(self.end)[2]
        page.write_text(f"{before}{self.begin}\n\n{text}\n\n{self.end}{after}")

    def report(self, options: argparse.Namespace, text: str, **figures: object) -> None:
        """Writes figures and table to where the options say."""
        if options.json:
            write_figures(options.json, today(), **figures)
        if options.page:
            self.replace(options.page, f"{measured_on(today())}.\n\n{text}")
