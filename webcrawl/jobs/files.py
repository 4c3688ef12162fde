"""Reads definitions of jobs from YAML files. Each error names file, line and entry.

The rules of YAML 1.2 apply: only `true` and `false` are booleans, so ON and no are text, and 06:30 is not a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.config.libraries import optional
from webcrawl.errors import ConfigurationError, WrongJob, brief
from webcrawl.jobs.definition import Definition

_SUFFIXES = (".yaml", ".yml")
_LARGEST = 1_000_000
_DEEPEST = 20
_YAML = "tag:yaml.org,2002:"
_SCALARS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    f"{_YAML}null": (r"~|null|Null|NULL|", lambda text: None),
    f"{_YAML}bool": (r"true|True|TRUE|false|False|FALSE", lambda text: text.lower() == "true"),
    f"{_YAML}int": (r"[-+]?[0-9]+", int),
    f"{_YAML}float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", float),
}
_TEXT, _COLLECTIONS = f"{_YAML}str", {"sequence": f"{_YAML}seq", "mapping": f"{_YAML}map"}

EntryPath = tuple[str | int, ...]


class JobFile(NamedTuple):
    """A job in a file: its values, and the line of each entry."""

    path: Path
    values: dict[str, Any]
    lines: Mapping[EntryPath, int]
    definition: Definition

    def wrong(self, reason: str, *entry: str | int) -> ConfigurationError:
        """Returns the error for an entry."""
        return _wrong(self.path, self.lines, WrongJob(reason, *entry))


def read_jobs(path: Path) -> list[JobFile]:
    """Returns the jobs of a file, or of a folder's YAML files; raises ConfigurationError for the first wrong job."""
    jobs: list[JobFile] = []
    names: dict[str, JobFile] = {}
    for file in _files(path):
        for job in _read(file):
            if other := names.get(job.definition.name):
                raise job.wrong(f"{job.definition.name!r} is also in {other.path}:{other.lines[()]}", "name")
            names[job.definition.name] = job
            jobs.append(job)
    if not jobs:
        raise ConfigurationError(f"there is no job in {path}")
    return jobs


def _files(path: Path) -> list[Path]:
    try:
        if not path.is_dir():
            return [path]
        return sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error


def _read(path: Path) -> Iterator[JobFile]:
    """Yields the jobs of a file: one in each YAML document."""
    yaml = optional("YAML", "PyYAML", "jobs", "yaml")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {path}: {error}") from error
    if len(text) > _LARGEST:
        raise ConfigurationError(f"{path} has more than {_LARGEST:,} characters")
    try:
        _check_shape(path, yaml.parse(text))
        nodes = [node for node in yaml.compose_all(text, _loader(yaml)) if node.value != ""]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigurationError(
            f"{path}:{mark.line + 1 if mark else 1}: {error.problem or error.context}"
        ) from error
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise ConfigurationError(f"{path}: {' '.join(str(error).split())}") from error
    for node in nodes:
        lines: dict[EntryPath, int] = {}
        try:
            values = _value(node, (), lines)
            if not isinstance(values, dict):
                raise WrongJob("must be a job: name, cron, spider and other keys")
            _complete(values, path)
            yield JobFile(path, values, lines, Definition.of(values))
        except WrongJob as error:
            raise _wrong(path, lines, error) from error


def _check_shape(path: Path, events: Any) -> None:
    """Raises ConfigurationError for references, which can make a short file endless, and for deep nesting."""
    depth = 0
    for event in events:
        name, line = type(event).__name__, event.start_mark.line + 1
        depth += name.endswith("StartEvent") - name.endswith("EndEvent")
        if depth > _DEEPEST:
            raise ConfigurationError(f"{path}:{line}: entries are nested too deeply")
        if name == "AliasEvent":
            raise ConfigurationError(f"{path}:{line}: *{event.anchor}: references are not supported")


def _loader(yaml: Any) -> Any:
    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """A loader that reads unquoted scalars by YAML 1.2, and allows only the safe tags of PyYAML."""

        yaml_implicit_resolvers: dict[str, Any] = {}

    for tag, (pattern, _) in _SCALARS.items():
        Loader.add_implicit_resolver(tag, re.compile(rf"(?:{pattern})\Z"), None)
    return Loader


def _value(node: Any, entry: EntryPath, lines: dict[EntryPath, int]) -> Any:
    """Returns the value of a node; stores the line of each entry in `lines`."""
    lines[entry] = node.start_mark.line + 1
    if node.tag != _COLLECTIONS.get(node.id, _TEXT) and not (node.id == "scalar" and node.tag in _SCALARS):
        raise WrongJob(f"the tag {node.tag!r} is not supported", *entry)
    if node.id == "sequence":
        return [_value(child, (*entry, index), lines) for index, child in enumerate(node.value)]
    if node.id == "mapping":
        values: dict[str, Any] = {}
        for key, child in node.value:
            name = key.value if key.id == "scalar" else ""
            lines[(*entry, name)] = key.start_mark.line + 1
            if not name:
                lines[(*entry, "?")] = key.start_mark.line + 1
                raise WrongJob("a key must be text", *entry, "?")
            if name in values:
                raise WrongJob("is there twice", *entry, name)
            values[name] = _value(child, (*entry, name), lines)
            # the line of the key, because the value may begin below it
            lines[(*entry, name)] = key.start_mark.line + 1
        return values
    return node.value if node.tag == _TEXT else _scalar(node, entry)


def _scalar(node: Any, entry: EntryPath) -> Any:
    try:
        return _SCALARS[node.tag][1](node.value)
    except ValueError as error:  # an explicit tag such as !!int x, or a number of 5,000 digits
        raise WrongJob(f"{brief(node.value)!r} is not of the type {node.tag!r}", *entry) from error


def _complete(values: dict[str, Any], path: Path) -> None:
    """Makes the paths of seeds and checkpoints absolute. They are relative to the file of the job."""
    seeds = values.get("seeds")
    if isinstance(seeds, dict) and isinstance(seeds.get("file"), str):
        file = (path.parent / seeds["file"]).absolute()
        if not file.is_file():
            raise WrongJob(f"there is no file {str(file)!r}", "seeds", "file")
        seeds["file"] = str(file)
    checkpoints = values.get("checkpoints")
    if (
        isinstance(checkpoints, dict)
        and isinstance(to := checkpoints.get("to"), str)
        and to
        and "://" not in to
    ):
        checkpoints["to"] = str((path.parent / to).absolute())


def _wrong(path: Path, lines: Mapping[EntryPath, int], error: WrongJob) -> ConfigurationError:
    """Returns the error with file and line of the entry, or of the nearest enclosing entry."""
    entry: EntryPath = error.entry
    while entry and entry not in lines:
        entry = entry[:-1]
    return ConfigurationError(f"{path}:{lines.get(entry, 1)}: {error}")
