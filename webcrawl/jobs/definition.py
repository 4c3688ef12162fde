"""The definition of a job, which an operator writes in YAML, with its checks and its stored form."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from webcrawl.config.passwords import without_password
from webcrawl.errors import InvalidURL, WrongJob
from webcrawl.jobs.problems import JobProblems
from webcrawl.jobs.records import JobState
from webcrawl.jobs.schedule import Schedule
from webcrawl.urls.seeds import seed_url

Missed = Literal["late", "skip"]
Overlap = Literal["wait", "skip", "replace"]

# a crawl ID has at most 64 characters, and ends with the time of the firing
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_SETTING = re.compile(r"[A-Z][A-Z0-9_]*")
_OWN_SETTINGS = {
    "CRAWL_ID": "each iteration has one of its own",
    "DATA_DIR": "each iteration has a folder of its own, in jobs/ below the DATA_DIR of the scheduler",
    "SCHEDULER_FLUSH_ON_START": "each iteration begins a new crawl, and goes on with it after a failure",
}
_MOST_WORKERS = 1000


@dataclass(frozen=True, slots=True)
class Seeds:
    """The seeds of an iteration, from one of three sources."""

    urls: tuple[str, ...] = ()
    file: str = ""
    """The path of a file with a URL per line, which is read when an iteration starts."""
    url: str = ""
    """The address of a file with a URL per line."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The iterations of a job that retention keeps: the latest, and those of some days; None for no bound."""

    iterations: int | None = None
    days: int | None = None

    @property
    def all(self) -> bool:
        return self.iterations is None and self.days is None


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """The checkpoints of running iterations: the frontier is copied to the folder or store `to` every `hours`."""

    to: str
    hours: float = 24.0
    keep: int = 3
    """The number of latest checkpoints of an iteration that are kept."""


class Node(NamedTuple):
    """A scrapyd server. `slots`: the most jobs of all projects that run at a time; None if unknown."""

    address: str
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class Definition:
    """A job. `Definition.of` makes a definition from plain values; it raises WrongJob, which names the entries."""

    name: str
    spider: str
    schedule: Schedule
    seeds: Seeds | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    state: JobState = JobState.ON
    owner: str = ""
    notify: tuple[str, ...] = ()
    """Apprise URLs."""
    keep: Keep = Keep()
    missed: Missed = "late"
    """What to do with a firing that was due while no scheduler ran."""
    overlap: Overlap = "wait"
    """What to do with a firing whose predecessor still runs."""
    workers: int = 1
    nodes: tuple[Node, ...] = ()
    """The scrapyd nodes of the workers; without nodes, workers are child processes of the scheduler."""
    project: str = "webcrawl"
    """The name of the project on the nodes."""
    checkpoints: Checkpoints | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        read: dict[str, Any] = {}
        with JobProblems() as problems:
            given = {key: value for key, value in values.items() if value is not None}
            missing = [key for key in ("name", "cron", "spider") if key not in given]
            with problems.entry():
                cron, zone = given.pop("cron", "0 0 * * *"), given.pop("timezone", "UTC")
                read["schedule"] = Schedule(_text(cron, "cron"), _text(zone, "timezone"))
            for key, value in given.items():
                with problems.entry():
                    read[key] = _reader(key)(value, key)
            for key in missing:
                with problems.entry():
                    raise WrongJob(f"{key} is missing")
        made = cls(**read)
        made._check()
        return made

    def _check(self) -> None:
        if self.seeds is not None and "seeds" in self.arguments:
            raise WrongJob("seeds are given twice: write them in seeds alone", "arguments", "seeds")
        if self.nodes and self.seeds is not None and self.seeds.file:
            raise WrongJob("a file is not on the nodes: use urls or url", "seeds", "file")


def _reader(key: str) -> Callable[..., Any]:
    if key not in _READERS:
        known = _keys()
        meant = get_close_matches(str(key), known, 1)
        raise WrongJob(f"there is no such key; {_did_you_mean(meant, known)}", key)
    return _READERS[key]


def _keys() -> list[str]:
    return [*(entry.name for entry in fields(Definition) if entry.name != "schedule"), "cron", "timezone"]


def _did_you_mean(meant: list[str], known: list[str]) -> str:
    return f"did you mean {meant[0]!r}?" if meant else f"keys are {', '.join(sorted(known))}"


def _text(value: Any, *entry: str | int) -> str:
    if not isinstance(value, str) or not value.strip():
        raise WrongJob(f"must be text, not {value!r}", *entry)
    return value.strip()


def _name(value: Any, *entry: str | int) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise WrongJob(f"{value!r} must have 1 to 40 small letters, digits, dashes and underscores", *entry)
    return value


def _choice(*allowed: str) -> Callable[..., Any]:
    def read(value: Any, *entry: str | int) -> Any:
        if value not in allowed:
            raise WrongJob(f"must be {', '.join(allowed[:-1])} or {allowed[-1]}, not {value!r}", *entry)
        return value

    return read


def _whole(least: int, most: int | None = None) -> Callable[..., int]:
    def read(value: Any, *entry: str | int) -> int:
        if type(value) is not int or value < least or (most is not None and value > most):
            bound = f"from {least} to {most:,}" if most else f"of at least {least}"
            raise WrongJob(f"must be a whole number {bound}, not {value!r}", *entry)
        return value

    return read


def _mapping(value: Any, *entry: str | int) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise WrongJob(f"must have names with values, not {value!r}", *entry)
    return value


def _list(value: Any, *entry: str | int) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise WrongJob(f"must be a list that is not empty, not {value!r}", *entry)
    return value


def _parts(value: Any, known: Mapping[str, Callable[..., Any]], *entry: str | int) -> dict[str, Any]:
    """Returns the entries of a mapping, which may have only the keys `known`."""
    read = {}
    with JobProblems() as problems:
        for key, part in _mapping(value, *entry).items():
            with problems.entry():
                if key not in known:
                    raise WrongJob(f"there is no such key; keys are {', '.join(known)}", *entry, key)
                read[key] = known[key](part, *entry, key)
    return read


def _seeds(value: Any, *entry: str | int) -> Seeds:
    if isinstance(value, list):
        return Seeds(urls=_urls(value, *entry))
    if not isinstance(value, Mapping) or len(value) != 1:
        raise WrongJob("must be a list of URLs, {file: path} or {url: address of a file}", *entry)
    return Seeds(**_parts(value, {"urls": _urls, "file": _text, "url": _web_address}, *entry))


def _urls(value: Any, *entry: str | int) -> tuple[str, ...]:
    urls = []
    with JobProblems() as problems:
        for index, url in enumerate(_list(value, *entry)):
            with problems.entry():
                urls.append(_seed(url, *entry, index))
    return tuple(urls)


def _seed(value: Any, *entry: str | int) -> str:
    try:
        return seed_url(_text(value, *entry))
    except InvalidURL as error:
        raise WrongJob(str(error), *entry) from error


def _web_address(value: Any, *entry: str | int) -> str:
    text = _text(value, *entry)
    try:
        parts = urlsplit(text)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # invalid brackets or an invalid port
        known = False
    if not known:
        shown = without_password(text)
        example = "http://localhost:6800" if entry[0] == "nodes" else "https://example.org/seeds.txt"
        raise WrongJob(f"{shown!r} is not an address such as {example}", *entry)
    return text


def _nodes(value: Any, *entry: str | int) -> tuple[Node, ...]:
    return tuple(_node(node, *entry, index) for index, node in enumerate(_list(value, *entry)))


def _node(value: Any, *entry: str | int) -> Node:
    if not isinstance(value, Mapping):
        return Node(_web_address(value, *entry).rstrip("/"))
    read = _parts(value, {"url": _web_address, "slots": _whole(1)}, *entry)
    if "url" not in read:
        raise WrongJob("url is missing", *entry)
    return Node(read["url"].rstrip("/"), read.get("slots"))


def _arguments(value: Any, *entry: str | int) -> dict[str, str]:
    arguments = {}
    for name, argument in _mapping(value, *entry).items():
        if isinstance(argument, list | Mapping) or argument is None:
            raise WrongJob(f"must be text or a number, not {argument!r}", *entry, name)
        arguments[str(name)] = str(argument)
    return arguments


def _settings(value: Any, *entry: str | int) -> dict[str, Any]:
    with JobProblems() as problems:
        for name in _mapping(value, *entry):
            with problems.entry():
                if why := _OWN_SETTINGS.get(name):
                    raise WrongJob(f"cannot be set: {why}", *entry, name)
                if not _SETTING.fullmatch(name):
                    raise WrongJob(
                        f"{name!r} is not the name of a setting, such as DOWNLOAD_DELAY", *entry, name
                    )
                if value[name] is None:
                    raise WrongJob("has no value", *entry, name)
    return dict(value)


def _notify(value: Any, *entry: str | int) -> tuple[str, ...]:
    for index, url in enumerate(_list(value, *entry)):
        if "://" not in _text(url, *entry, index):
            # without the address, which may have a password
            raise WrongJob("is not an Apprise URL such as mailto://user@example.org", *entry, index)
    return tuple(value)


def _keep(value: Any, *entry: str | int) -> Keep:
    return Keep(**_parts(value, {"iterations": _whole(1), "days": _whole(1)}, *entry))


def _hours(value: Any, *entry: str | int) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 8760:
        raise WrongJob(f"must be a number of hours, at most 8,760, not {value!r}", *entry)
    return float(value)


def _checkpoints(value: Any, *entry: str | int) -> Checkpoints:
    read = _parts(value, {"to": _text, "hours": _hours, "keep": _whole(1)}, *entry)
    if "to" not in read:
        raise WrongJob("to is missing: a folder or a URI such as s3://bucket/prefix", *entry)
    return Checkpoints(**read)


def _state(value: Any, *entry: str | int) -> JobState:
    return JobState(_choice(*JobState)(value, *entry))


_READERS: Mapping[str, Callable[..., Any]] = {
    "name": _name,
    "spider": _text,
    "seeds": _seeds,
    "arguments": _arguments,
    "settings": _settings,
    "state": _state,
    "owner": _text,
    "notify": _notify,
    "keep": _keep,
    "missed": _choice("late", "skip"),
    "overlap": _choice("wait", "skip", "replace"),
    "workers": _whole(1, _MOST_WORKERS),
    "nodes": _nodes,
    "project": _text,
    "checkpoints": _checkpoints,
}
