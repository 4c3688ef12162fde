"""The form that starts a crawl, or stores a job: what its fields mean, and what is wrong with each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from webcrawl.config import DECLARED
from webcrawl.config.passwords import HIDDEN, without_secrets
from webcrawl.crawler.url_arguments import SPIDER, seeds_of
from webcrawl.engine.keys import Keys
from webcrawl.errors import ConfigurationError, InvalidURL, WrongJob
from webcrawl.frontier.crawl import CrawlRun
from webcrawl.jobs.definition import Definition
from webcrawl.urls.seeds import seed_url, seeds_in_lines
from webcrawl.web.crawl_settings import ALLOWED, as_field

_DAILY = "0 6 * * *"
_TEXTS = ("timezone", "overlap", "missed")
"""The fields that are entries of a job of the same name."""
FIELDS = ("seeds", "spider", "scope", "crawl", "name", "cron", *_TEXTS, "keep", "job", "version", *ALLOWED)
LABELS: Mapping[str, str] = {
    "seeds": "URLs to start from",
    "spider": "Spider",
    "scope": "Follow links",
    "crawl": "Name of the crawl",
    "cron": "Schedule",
    "timezone": "Time zone",
    "name": "Name of the job",
    "overlap": "If the one before still runs",
    "missed": "If no scheduler ran when it was due",
    "keep": "Keep the last",
    "job": "Job",
    "version": "Version",
    **{name: field.label for name, field in ALLOWED.items()},
}
"""Field -> what the page calls it."""
_RIGHT = {"name": "job", "cron": _DAILY, "spider": SPIDER}
"""Entries with which each other entry can be read alone."""
_MOST_SEEDS = 1000
_LONGEST_NAME = 40
_PLAIN = re.compile(r"[A-Za-z](?:[A-Za-z0-9_./?&=%+~-]|:(?=[A-Za-z0-9/]))*")
_RESERVED = ("null", "true", "false")


@dataclass
class CrawlForm:
    """The fields of the form as text, and what they mean. `base`: the definition of the job that is edited.

    `crawl` is the CRAWL_ID of a crawl that starts now, `values` is the job as in its file, and `definition` is what
    starts or is stored, unless there are `problems`: messages by field, those of the form itself under "".
    """

    fields: dict[str, str]
    base: Mapping[str, Any] = field(default_factory=dict)
    problems: dict[str, list[str]] = field(default_factory=dict)
    crawl: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    definition: Definition | None = None

    @classmethod
    def of(cls, sent: Mapping[str, str], base: Mapping[str, Any] | None = None) -> CrawlForm:
        """Reads the fields that a browser has sent. `check` says what is wrong with them."""
        return cls({name: sent.get(name, "").strip() for name in FIELDS}, base or {})

    @classmethod
    def of_job(cls, definition: Mapping[str, Any], version: str) -> CrawlForm:
        """Returns the form that edits a job."""
        settings, keep = definition.get("settings") or {}, definition.get("keep") or {}
        fields = dict.fromkeys(FIELDS, "")
        fields |= {name: as_field(settings[name]) for name in ALLOWED if name in settings}
        fields |= {name: str(definition.get(name) or "") for name in ("spider", "cron", *_TEXTS)}
        fields |= {"name": definition["name"], "job": definition["name"], "version": version}
        fields["scope"] = str((definition.get("arguments") or {}).get("scope", ""))
        fields["keep"] = str(keep.get("iterations", ""))
        fields["seeds"] = "\n".join(_urls_of(definition.get("seeds")))
        return cls(fields, definition)

    @classmethod
    def of_run(cls, crawl: str, run: CrawlRun | None) -> CrawlForm | None:
        """Returns the form that continues a crawl as its latest run was; None if its seeds are not all known."""
        if run is None or not run.seeds or run.seed_count > len(run.seeds) or "//...@" in str(run.seeds):
            return None
        # settings are text here, and lists are no text of a field
        settings = {name: text for name, text in run.settings.items() if name in ALLOWED and text[:1] != "["}
        fields = {"seeds": "\n".join(run.seeds), "spider": run.spider, "scope": run.scope, "crawl": crawl}
        return cls.of(fields | settings)

    @property
    def is_job(self) -> bool:
        """Whether the form is about a job, and not about a crawl that starts now."""
        return bool(self.fields["cron"] or self.fields["job"])

    @property
    def filled(self) -> list[str]:
        """The fields that are not empty."""
        return [name for name, text in self.fields.items() if text]

    @property
    def kept(self) -> list[str]:
        """The entries of the edited job that the form does not show, and leaves as they are."""
        shown = {"name", "spider", "cron", "seeds", "arguments", "settings", "keep", "state", *_TEXTS}
        names = [name for name in self.base if name not in shown]
        names += [f"arguments.{name}" for name in self.base.get("arguments") or {} if name != "scope"]
        names += [f"settings.{name}" for name in self.base.get("settings") or {} if name not in ALLOWED]
        return names + (["seeds"] if self.base.get("seeds") and not _urls_of(self.base["seeds"]) else [])

    @property
    def shown_yaml(self) -> str:
        """The file that `jobs apply` reads, without the secrets that the form does not show."""
        values = dict(self.values)
        if "notify" in values:
            values["notify"] = [HIDDEN]
        shown = {name: without_secrets(values[name]) for name in ("arguments", "settings") if name in values}
        return yaml_of(values | shown)

    def check(self, check: Callable[[Definition], None]) -> bool:
        """Finds all problems, and sets what the fields mean if there are none. `check` raises WrongJob."""
        seeds = self._seeds()
        settings = self._settings()
        if not self.fields["cron"] and any(self.fields[name] for name in ("job", "name", "keep", *_TEXTS)):
            self.add("cron", "a job needs a schedule; a crawl that starts now has none of the fields here")
        self.crawl = self._crawl_id(seeds)
        self.values = self._values(seeds, settings)
        right = {key: value for key, value in self.values.items() if self._is_right(key, value)}
        try:
            definition = Definition.of(_RIGHT | right)
            check(definition)
        except WrongJob as error:
            self._note(error)
            return False
        self.definition = definition
        return not self.problems

    def add(self, name: str, problem: str) -> None:
        """Adds a problem of a field, or of the form ("")."""
        known = self.problems.setdefault(name, [])
        if problem not in known:
            known.append(problem)

    def _seeds(self) -> list[str]:
        """Returns the normalized seeds. A file is none: the form would read any file of the machine."""
        urls = []
        for number, line in enumerate(seeds_in_lines(self.fields["seeds"].splitlines()), 1):
            try:
                urls.append(seed_url(line))
            except InvalidURL as error:
                self.add("seeds", f"URL {number}: {error}")
        if len(urls) > _MOST_SEEDS:
            self.add(
                "seeds", f"there are more than {_MOST_SEEDS:,} URLs: start it in a terminal, from a file"
            )
        return urls

    def _settings(self) -> dict[str, Any]:
        settings = {}
        for name in ALLOWED:
            if text := self.fields[name]:
                try:
                    settings[name] = DECLARED[name].parse(text)
                except ConfigurationError as error:
                    self.add(name, str(error))
        return settings

    def _crawl_id(self, seeds: list[str]) -> str:
        spider = self.fields["spider"]
        crawl = self.fields["crawl"] or (seeds_of(seeds)[1] if seeds and spider == SPIDER else spider)
        if not self.is_job:
            try:
                Keys(crawl, 1)
            except ConfigurationError as error:
                self.add("crawl", str(error))
        return crawl

    def _values(self, seeds: list[str], settings: dict[str, Any]) -> dict[str, Any]:
        """Returns the job: what the form says, and what it does not show of the edited one."""
        fields, base = self.fields, self.base
        own = {"name": fields["name"] or job_name(self.crawl), "cron": fields["cron"] or _DAILY}
        own |= {"spider": fields["spider"]} | {name: fields[name] for name in _TEXTS}
        own["name"] = fields["job"] or own["name"]
        kept = {name: value for name, value in (base.get("settings") or {}).items() if name not in ALLOWED}
        arguments = {name: text for name, text in (base.get("arguments") or {}).items() if name != "scope"}
        scope = {"scope": fields["scope"]} if fields["scope"] else {}
        values = {
            **base,
            **own,
            "seeds": seeds or (base.get("seeds") if not _urls_of(base.get("seeds")) else None),
            "arguments": {**arguments, **scope},
            "settings": {**kept, **settings},
            "keep": self._keep(),
        }
        return {name: value for name, value in values.items() if value not in (None, "", {}, [])}

    def _keep(self) -> dict[str, Any]:
        keep = {name: value for name, value in (self.base.get("keep") or {}).items() if name != "iterations"}
        text = self.fields["keep"]
        return keep | (
            {"iterations": int(text) if text.isdecimal() and len(text) < 10 else text} if text else {}
        )

    def _is_right(self, key: str, value: Any) -> bool:
        try:
            Definition.of(_RIGHT | {key: value})
        except WrongJob as error:
            self._note(error)
            return False
        return True

    def _note(self, error: WrongJob) -> None:
        """Adds the problem of an entry to its field."""
        entry = [str(part) for part in error.entry]
        name = (
            entry[1] if entry[:1] in (["settings"], ["arguments"]) and len(entry) > 1 else "".join(entry[:1])
        )
        shown = name in FIELDS
        self.add(name if shown else "", error.reason if shown else str(error))


def job_name(crawl: str) -> str:
    """Returns a name for a job that repeats a crawl."""
    return re.sub(r"[^a-z0-9]+", "-", crawl.lower()).strip("-")[:_LONGEST_NAME].strip("-")


def _urls_of(seeds: Any) -> list[str]:
    """Returns the URLs in the seeds of a definition; an empty list if they are in a file or at an address."""
    urls = seeds.get("urls") if isinstance(seeds, Mapping) else seeds
    return list(map(str, urls or ()))


def yaml_of(values: Mapping[str, Any]) -> str:
    """Returns the text of a file that `webcrawl.jobs.files` reads, for text, numbers, flags, lists and dicts.

    The library that reads YAML is not needed.
    """
    return "".join(f"{line}\n" for line in _yaml_lines(values))


def _yaml_lines(values: Mapping[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield f"{_scalar(key)}:"
            yield from (f"  {line}" for line in _yaml_lines(value))
        elif isinstance(value, list | tuple) and value:
            yield f"{_scalar(key)}:"
            yield from (f"  - {_scalar(entry)}" for entry in value)
        else:
            yield f"{_scalar(key)}: {_scalar(value)}"


def _scalar(value: Any) -> str:
    """Returns a value on one line. What is neither plain text nor a number has the form that JSON and YAML share."""
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    return f'"{"".join(map(_escaped, value))}"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"
