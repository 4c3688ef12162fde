"""Recognizes repeated reparse commands, so that a killed reparse continues and a finished reparse is not repeated."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings
from scrapy.utils.python import global_object_name

from webcrawl.config import DECLARED, read
from webcrawl.config.version import VERSION
from webcrawl.reparse.selection import OPTIONS

_READ = (
    *("MIME_TIMEOUT", "MIME_MEMORY", "DOCUMENT_MAXSIZE", "ROBOTS_META_OBEY", "TEXT_LINKS", "PAGE_RESOURCES"),
    *("SIMHASH_DISTANCE", "LINKS", "TEXT", "TEXT_MARKDOWN", "STORE_URI", "METADATA_URI", "CRAWL_ID"),
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
