"""Reads definitions of jobs from YAML files. An error has all problems, each with file, line and entry.

The rules of YAML 1.2 apply: only `true` and `false` are booleans, so ON and no are text, and 06:30 is not a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.config.libraries import optional
from webcrawl.errors import ConfigurationError, WrongJob, brief
from webcrawl.jobs.definition import Definition
from webcrawl.jobs.problems import JobProblems

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


def read_jobs(path: Path, check: Callable[[Definition], None] = lambda definition: None) -> list[JobFile]:
    """Returns the jobs of a file, or of a folder's YAML files.

    `check` raises WrongJob for a job that could not run. Raises ConfigurationError with a line for each problem.
    """
    jobs: dict[str, JobFile] = {}
    problems: list[str] = []
    for file in _files(path):
        try:
            nodes = _nodes(file)
        except ConfigurationError as error:
            problems.append(str(error))
            continue
        for node in nodes:
            lines: dict[EntryPath, int] = {}
            try:
                job = _read(node, file, lines)
                name = job.definition.name
                if other := jobs.get(name):
                    raise WrongJob(f"{name!r} is also in {other.path}:{other.lines[()]}", "name")
                jobs[name] = job
                check(job.definition)
            except WrongJob as error:
                problems += _described(file, lines, error)
    if problems:
        raise ConfigurationError("\n".join(problems))
    if not jobs:
        raise ConfigurationError(f"there is no job in {path}")
    return list(jobs.values())


def _files(path: Path) -> list[Path]:
    try:
        if not path.is_dir():
            return [path]
        return sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error


def _nodes(path: Path) -> list[Any]:
    """Returns the jobs of a file as nodes of YAML: one in each document."""
    yaml = optional("YAML", "PyYAML", "jobs", "yaml")
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST + 1)  # no more: it may be a device or a pipe
        if len(raw) > _LARGEST:
            raise ConfigurationError(f"{path} has more than {_LARGEST:,} bytes")
        text = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read {path}: {error}") from error
    try:
        _check_shape(path, yaml.parse(text))
        return [node for node in yaml.compose_all(text, _loader(yaml)) if node.value != ""]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigurationError(
            f"{path}:{mark.line + 1 if mark else 1}: {error.problem or error.context}"
        ) from error
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise ConfigurationError(f"{path}: {' '.join(str(error).split())}") from error


def _read(node: Any, path: Path, lines: dict[EntryPath, int]) -> JobFile:
    """Returns the job of a node; stores the line of each entry in `lines`. Raises WrongJob."""
    values = _value(node, (), lines)
    if not isinstance(values, dict):
        raise WrongJob("must be a job: name, cron, spider and other keys")
    with JobProblems() as problems:
        with problems.entry():
            _complete(values, path)
        definition = Definition.of(values)
    return JobFile(path, values, lines, definition)


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


def _described(path: Path, lines: Mapping[EntryPath, int], error: WrongJob) -> list[str]:
    """Returns the problems with file and line of the entry, or of the nearest enclosing entry, sorted by line."""
    described = []
    for problem in error.all:
        entry: EntryPath = problem.entry
        while entry and entry not in lines:
            entry = entry[:-1]
        described.append((lines.get(entry, 1), str(problem)))
    return [f"{path}:{line}: {text}" for line, text in sorted(described)]
