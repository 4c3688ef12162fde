"""The check of Scrapy's settings that name components: a wrong setting ends a command with one line.

Scrapy itself raises errors of many kinds, before a command runs or only at the first request.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from scrapy.settings import BaseSettings, Settings
from scrapy.utils.misc import load_object

from webcrawl.config.program import as_typed, program
from webcrawl.crawler.download.reactor import reactor_is_missing
from webcrawl.errors import ConfigurationError, brief

_ORDERED = ("SPIDER_MIDDLEWARES", "DOWNLOADER_MIDDLEWARES", "EXTENSIONS", "ITEM_PIPELINES")
"""Settings that map a component to a number, which sets its order, or to None, which leaves it out."""
_BY_NAME = ("DOWNLOAD_HANDLERS", "FEED_STORAGES", "FEED_EXPORTERS")
"""Settings that map a name, such as a scheme, to a component, or to None, which leaves it out."""
_MODULES = ("SPIDER_MODULES", "COMMANDS_MODULE", "NEWSPIDER_MODULE")
_SINGLE = (
    *("SCHEDULER", "DUPEFILTER_CLASS", "ITEM_PROCESSOR", "DOWNLOADER", "STATS_CLASS", "SPIDER_LOADER_CLASS"),
    *(
        "LOG_FORMATTER",
        "REQUEST_FINGERPRINTER_CLASS",
        "ASYNCIO_EVENT_LOOP",
        "FEED_URI_PARAMS",
        "DEFAULT_ITEM_CLASS",
    ),
)
_DICTS = (
    *_ORDERED,
    *_BY_NAME,
    "ADDONS",
    "DEFAULT_REQUEST_HEADERS",
    "DOWNLOAD_SLOTS",
    "FEEDS",
    "REFERRER_POLICIES",
)


def check_early(settings: Settings, options: argparse.Namespace) -> None:
    """Prints one line, and exits with 2, for a wrong setting that Scrapy uses before it runs a command."""
    try:
        for name, equals, value in (option.partition("=") for option in getattr(options, "set", [])):
            if equals:
                _check_type(name, value)
                settings.set(name, value, priority="cmdline")
        _check_order(settings, "ADDONS")
        _check_modules(settings)
        for name in ("SPIDER_LOADER_CLASS", "ASYNCIO_EVENT_LOOP"):
            _check_single(settings, name)
    except ConfigurationError as error:
        print(f"{program()}: {as_typed(error)}", file=sys.stderr)
        sys.exit(2)


def check_components(settings: BaseSettings) -> None:
    """Raises ConfigurationError if a component has no valid number, or cannot be imported.

    A component that needs the reactor of Twisted passes, because the crawl gives a better message.
    """
    for name in _ORDERED:
        _check_order(settings, name)
    for name in _BY_NAME:
        for key, component in settings.getdict(name).items():
            if component is not None:
                _load(name, component, f" of {key!r}")
    for key, options in settings.getdict("FEEDS").items():
        if not isinstance(options, Mapping):
            raise ConfigurationError(f"FEEDS: the options of {str(key)!r} must be a dict, not {options!r}")
    for name in _SINGLE:
        _check_single(settings, name)


def _check_type(name: str, value: object) -> None:
    """Raises ConfigurationError if the setting must be a dict, but the value is not a dict."""
    if name not in _DICTS:
        return
    try:
        BaseSettings(value)  # type: ignore[arg-type]  # it takes the text of a dict too
    except (TypeError, ValueError, AttributeError, RecursionError):
        raise ConfigurationError(f"{name} must be a dict, not {brief(repr(value))}") from None


def _check_order(settings: BaseSettings, name: str) -> None:
    for component, order in settings.getdict(name).items():
        if order is None:
            continue
        if isinstance(order, bool) or not isinstance(order, int | float):
            raise ConfigurationError(
                f"{name}: the place of {component!r} must be a number or None, not {order!r}"
            )
        _load(name, component)


def _check_single(settings: BaseSettings, name: str) -> None:
    if component := settings.get(name):
        _load(name, component)


def _check_modules(settings: BaseSettings) -> None:
    for name in _MODULES:
        for module in settings.getlist(name):
            if not (isinstance(module, str) and _exists(module)):
                raise ConfigurationError(f"{name}: there is no module {module!r}")


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _load(name: str, component: Any, what: str = "") -> None:
    """Raises ConfigurationError if a component cannot be imported; raises an error within its module unchanged."""
    if isinstance(component, str) and component.startswith("webcrawl."):
        return  # components of webcrawl are imported when they are needed
    try:
        load_object(component)
    except (ImportError, NameError, ValueError, TypeError) as error:
        if not reactor_is_missing(error):
            raise ConfigurationError(f"{name}: cannot import {component!r}{what} ({error})") from error
