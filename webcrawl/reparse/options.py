"""The options of `scrapy reparse`: they select the pages to read again, and identify repeated commands.

A killed reparse whose command is repeated continues, and a finished reparse is not repeated.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings
from scrapy.utils.python import global_object_name
from sqlalchemy import ColumnElement, or_

from webcrawl.config import DECLARED, read
from webcrawl.config.program import VERSION
from webcrawl.crawler.pages.mime_pipeline import MimePipeline
from webcrawl.errors import ConfigurationError
from webcrawl.pipelines.html import HtmlPipeline
from webcrawl.reparse.settings import pipeline_named
from webcrawl.stores.columns import pages
from webcrawl.stores.reread_rows import sql_condition
from webcrawl.stores.selection import of_type, since

OPTIONS = ("mime_type", "pipeline", "since", "where")
_UNTYPED = ("application/octet-stream", "binary/octet-stream")


def conditions(opts: argparse.Namespace, settings: BaseSettings) -> list[ColumnElement[bool]]:
    """Returns the conditions on table `pages` that the options set; all must hold. Raises ConfigurationError."""
    chosen = []
    if opts.mime_type:
        chosen.append(of_type(opts.mime_type))
    if opts.since:
        chosen.append(since(opts.since))
    if opts.pipeline:
        chosen.append(of_pipeline(pipeline_named(settings, opts.pipeline)))
    if opts.where:
        chosen.append(sql_condition(opts.where))
    return chosen


def of_pipeline(pipeline: type[Any]) -> ColumnElement[bool]:
    """Returns the condition for rows of pages that a pipeline reads now.

    A new pipeline may read types that were not recognized when the page was fetched. Rows with its file extensions
    match too, and if it has signatures, also rows without a type.
    """
    if issubclass(pipeline, HtmlPipeline):
        return of_type("text/html,application/xhtml+xml")
    if not issubclass(pipeline, MimePipeline) or not pipeline.types:
        raise ConfigurationError(
            f"--pipeline {pipeline.__name__} does not say which MIME types it reads: choose its pages by --mime-type"
        )
    chosen: list[ColumnElement[bool]] = [pages.c.mime_type.in_(sorted(pipeline.types))]
    for extension in sorted(pipeline.extensions):
        path = pages.c.final_url
        chosen += [path.endswith(extension, autoescape=True), path.contains(f"{extension}?", autoescape=True)]
    if pipeline.signatures:
        chosen.append(or_(pages.c.mime_type.in_(_UNTYPED), pages.c.mime_type.is_(None)))
    return or_(*chosen)


_READ = (
    *("MIME_TIMEOUT", "MIME_MEMORY", "DOCUMENT_MAXSIZE", "ROBOTS_META_OBEY", "AI_OPT_OUTS"),
    *("TEXT_LINKS", "PAGE_RESOURCES", "EXTRACT", "STRUCTURED_DATA"),
    *(
        "SIMHASH_DISTANCE",
        "LINKS",
        "TEXT",
        "TEXT_PART",
        "TEXT_MARKDOWN",
        "TEXT_SIGNALS",
        "STORE_URI",
        "METADATA_URI",
        "CRAWL_ID",
    ),
)
"""Declared settings that affect how a page is read and where it is stored."""
_COMPONENTS = ("ITEM_PIPELINES", "SPIDER_MIDDLEWARES", "DOWNLOADER_MIDDLEWARES", "EXTENSIONS")


def command_mark(spider: str, opts: argparse.Namespace, settings: BaseSettings) -> str:
    """Returns 12 hexadecimal digits, equal for commands that read the same pages in the same way.

    They depend on the spider, its arguments, the options, the release of webcrawl, and the settings that count: those
    in `_READ`, the components, the feeds, and the project's own settings. `settings` must be complete, with the
    settings of the spider and the add-ons. Changes to the project's code are not noticed.
    """
    identity = [
        VERSION,
        spider,
        sorted(opts.spargs.items()),
        opts.callback,
        [getattr(opts, name) for name in OPTIONS],
        _values(settings),
    ]
    return hashlib.sha256(_json(identity).encode()).hexdigest()[:12]


def _values(settings: BaseSettings) -> Mapping[str, Any]:
    tables = {name: settings.get_component_priority_dict_with_base(name) for name in _COMPONENTS}
    return {
        **{name: read(settings, name) for name in _READ},
        **{
            name: [(_named(component), priority) for component, priority in table.items()]
            for name, table in tables.items()
        },
        "FEEDS": {str(uri): feed for uri, feed in settings.getdict("FEEDS").items()},
        **{name: settings[name] for name in sorted(settings) if _is_of_project(settings, name)},
    }


def _is_of_project(settings: BaseSettings, name: str) -> bool:
    return (
        (settings.getpriority(name) or 0) >= SETTINGS_PRIORITIES["project"]
        and name not in DECLARED
        and not hasattr(default_settings, name)
    )


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, skipkeys=True, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(_named(name)): member for name, member in value.items()}
    if isinstance(value, set | frozenset | tuple):
        return sorted(map(_json, value))
    # never repr, which may contain an address in memory
    return _named(value)


def _named(value: object) -> str:
    if isinstance(value, str):
        return value
    return global_object_name(value) if hasattr(value, "__qualname__") else type(value).__qualname__
