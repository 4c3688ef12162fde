"""`webcrawl new FOLDER`: creates a project from the files in `webcrawl/new/template`."""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from importlib.metadata import distribution, packages_distributions
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from webcrawl.config.libraries import DISTRIBUTION
from webcrawl.config.program import VERSION
from webcrawl.errors import ConfigurationError

_NAME = re.compile(r"[a-z][a-z0-9_-]*", re.IGNORECASE)
_SUFFIX = ".tmpl"


def main(words: Sequence[str] | None = None) -> int:
    """Runs the console script `webcrawl`; returns its exit status."""
    parser = ArgumentParser("webcrawl", description="A polite, durable web crawler on Scrapy.")
    parser.add_argument("--version", action="version", version=f"webcrawl {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="new")
    new = commands.add_parser("new", help="create a project in a new or empty folder")
    new.add_argument("folder", type=Path)
    try:
        print(_next_steps(create(parser.parse_args(words).folder)))
    except ConfigurationError as error:
        print(f"webcrawl new: {error}", file=sys.stderr)
        return 2
    return 0


def create(folder: Path) -> Path:
    """Creates a project named like its folder; raises ConfigurationError, and then leaves the folder as it was."""
    name = folder.resolve().name
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name!r} cannot be the name of a project: use letters, digits, '-' and '_', beginning with a letter"
        )
    if (taken := _module(name)) is not None:
        raise ConfigurationError(
            f"{name!r} cannot be the name of a project: {taken} is imported by that name. Choose another name"
        )
    try:
        if folder.is_dir() and any(folder.iterdir()):
            raise ConfigurationError(f"the folder {str(folder)!r} is not empty: name a new one")
        folder.mkdir(parents=True, exist_ok=True)
        _copy(files(__name__) / "template", folder, name)
    except OSError as error:
        raise ConfigurationError(f"cannot write to {str(folder)!r} ({error.strerror})") from error
    return folder


def _module(name: str) -> str | None:
    """Returns what has the name of a project already: a module of Python or of an installed package, or None."""
    module = name.lower().replace("-", "_")
    if module in map(str.lower, sys.stdlib_module_names):
        return "a module of Python"
    for imported, packages in packages_distributions().items():
        if module in {each.lower().replace("-", "_") for each in (imported, *packages)}:
            return f"the package {packages[0]}"
    return None


def _copy(source: Traversable, target: Path, name: str) -> None:
    for file in source.iterdir():
        if file.is_dir():
            (target / file.name).mkdir()
            _copy(file, target / file.name, name)
        elif file.name.endswith(_SUFFIX):
            text = file.read_text().replace("{{name}}", name).replace("{{requirement}}", requirement())
            (target / file.name.removesuffix(_SUFFIX)).write_text(text)


def requirement() -> str:
    """Returns the line of requirements.txt that installs this crawler again, from where it was installed.

    pip notes this in `direct_url.json` (PEP 610): a checkout, a wheel, or nothing for a package of an index.
    """
    package = distribution(DISTRIBUTION)
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    if not (url := origin.get("url")):
        return f"{DISTRIBUTION}>={VERSION}"
    if origin.get("dir_info", {}).get("editable"):
        return f"-e {url}"
    return f"{DISTRIBUTION} @ {url}"


def _next_steps(folder: Path) -> str:
    return (
        f"Created {folder}. Next:\n"
        f"  cd {folder}\n"
        "  make crawl                               # a small web on this machine\n"
        "  make test\n"
        '  make crawl SEEDS="https://example.org/"'
    )
