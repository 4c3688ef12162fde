"""The parts without which no crawl starts.

The add-on checks them after it has added our parts to a spider's own. A later add-on may change them, and a spider may
replace ADDONS. So `scrapy crawl` and, in a program, the downloader check them again when settings are final.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scrapy.crawler import Crawler
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.utils.misc import load_object

from webcrawl.config import parts, read
from webcrawl.errors import ConfigurationError

_ADDON = "webcrawl.addon.WebcrawlAddon"
_SOURCES = {
    SETTINGS_PRIORITIES["addon"]: "another add-on",
    SETTINGS_PRIORITIES["project"]: "the project's settings",
    SETTINGS_PRIORITIES["spider"]: "the spider's custom_settings",
    SETTINGS_PRIORITIES["cmdline"]: "the command line",
}


@dataclass(frozen=True)
class Safeguard:
    """A part without which no crawl starts: a component of this class, or of a derived class, in a setting."""

    setting: str
    path: str
    loss: str
    """What happens without it."""


SAFEGUARDS = {
    "robots": Safeguard(
        "DOWNLOADER_MIDDLEWARES",
        "webcrawl.middlewares.robots.RobotsMiddleware",
        "robots.txt would be ignored",
    ),
    "politeness": Safeguard(
        "DOWNLOADER_MIDDLEWARES",
        "webcrawl.middlewares.politeness.PolitenessMiddleware",
        "requests would not wait for the turn of their host",
    ),
    "address_guard": Safeguard(
        "DOWNLOADER_MIDDLEWARES",
        "webcrawl.middlewares.dns.DnsMiddleware",
        "pages could lead to addresses that are not public",
    ),
    "acknowledgement": Safeguard(
        "SCHEDULER",
        "webcrawl.scheduler.FrontierScheduler",
        "URLs would be lost when a worker dies",
    ),
}
"""The names that CRAWL_WITHOUT allows."""


def check_addon(crawler: Crawler) -> None:
    """Raises ConfigurationError if a crawler has not loaded the add-on."""
    kinds = (kind for addon in crawler.addons.addons for kind in type(addon).__mro__)
    if not any(f"{kind.__module__}.{kind.__qualname__}" == _ADDON for kind in kinds):
        raise ConfigurationError(
            f"ADDONS, set by {_source(crawler.settings, 'ADDONS')}, leaves out {_ADDON}, which registers the parts "
            f"of a crawl and checks its safeguards: add {_ADDON!r}: 100 to it"
        )


def check_safeguards(settings: BaseSettings) -> None:
    """Raises ConfigurationError for the first safeguard that is missing and that CRAWL_WITHOUT does not name.

    ROBOTSTXT_OBEY = False is enough to do without robots.txt.
    """
    waived = set(read(settings, "CRAWL_WITHOUT"))
    if unknown := sorted(waived - SAFEGUARDS.keys()):
        raise ConfigurationError(
            f"CRAWL_WITHOUT names {unknown[0]!r}: it may have {', '.join(map(repr, SAFEGUARDS))}"
        )
    if not read(settings, "ROBOTSTXT_OBEY"):
        waived.add("robots")
    if read(settings, "AI_OPT_OUTS") and "robots" in waived:
        raise ConfigurationError(
            "AI_OPT_OUTS needs robots.txt: set ROBOTSTXT_OBEY = True, and leave 'robots' out of CRAWL_WITHOUT"
        )
    if "address_guard" not in waived:
        _check_handlers(settings)
    for name, safeguard in SAFEGUARDS.items():
        if name not in waived and not _has(settings, safeguard):
            raise ConfigurationError(
                f"{safeguard.setting}, set by {_source(settings, safeguard.setting)}, leaves out {safeguard.path}, "
                f"without which {safeguard.loss}: put it back, or set CRAWL_WITHOUT = [{name!r}] if you mean it"
            )


def _check_handlers(settings: BaseSettings) -> None:
    """Raises ConfigurationError for a download handler that bypasses the address guard."""
    for scheme in ("http", "https", "ftp"):
        path = read(settings, "DOWNLOAD_HANDLERS").get(scheme)
        if path and not any(kind.__module__.startswith("webcrawl.") for kind in load_object(path).__mro__):
            raise ConfigurationError(
                f"DOWNLOAD_HANDLERS, set by {_source(settings, 'DOWNLOAD_HANDLERS')}, names {path} for {scheme}, which "
                f"connects without the address guard: use {parts.DOWNLOAD_HANDLERS[scheme]} or a class derived from "
                "it, "
                "or set CRAWL_WITHOUT = ['address_guard'] if you mean it"
            )


def _has(settings: BaseSettings, safeguard: Safeguard) -> bool:
    wanted = load_object(safeguard.path)
    return any(issubclass(component, wanted) for component in _classes(settings, safeguard.setting))


def _classes(settings: BaseSettings, name: str) -> Iterator[type[Any]]:
    """Yields the classes that a setting registers, by a table or by a single name."""
    is_table = isinstance(settings[name], BaseSettings)
    for path in settings.get_component_priority_dict_with_base(name) if is_table else [settings[name]]:
        loaded = load_object(path)
        if isinstance(loaded, type):
            yield loaded


def _source(settings: BaseSettings, name: str) -> str:
    """Returns a phrase for the place where a setting was set."""
    return _SOURCES.get(settings.getpriority(name) or 0, "a call")
