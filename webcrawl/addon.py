"""The add-on that makes the crawls of a Scrapy project crawls of webcrawl.

    ADDONS = {"webcrawl.addon.WebcrawlAddon": 100}

It registers the parts of `webcrawl.config.parts` and the defaults of docs/settings.md. The project's settings, the
`custom_settings` of a spider and `-s` take precedence. Components that these name join ours; None leaves one out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from scrapy.crawler import Crawler
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.utils.misc import load_object

from webcrawl.config import DEFAULTS, parts, read
from webcrawl.errors import ConfigurationError

_PRIORITY = "addon"
_SOURCES = {
    SETTINGS_PRIORITIES["addon"]: "another add-on",
    SETTINGS_PRIORITIES["project"]: "the project's settings",
    SETTINGS_PRIORITIES["spider"]: "the spider's custom_settings",
    SETTINGS_PRIORITIES["cmdline"]: "the command line",
}


@dataclass(frozen=True)
class Safeguard:
    """A part without which no crawl starts: a component of this class, or one derived from it, in a setting."""

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


class WebcrawlAddon:
    """Registers the parts of webcrawl and its defaults, and refuses a crawl without a safeguard."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    @classmethod
    def update_pre_crawler_settings(cls, settings: BaseSettings) -> None:
        """Set what Scrapy reads before it has a crawler: the event loop, the log, and where spiders are.

        The components are registered too, so that they stay if a spider replaces ADDONS.
        """
        _register(settings)
        modules = settings.getlist("SPIDER_MODULES")
        if parts.SPIDERS not in modules:
            # first, because a spider of the project replaces ours of the same name
            settings.set(
                "SPIDER_MODULES", [parts.SPIDERS, *modules], settings.getpriority("SPIDER_MODULES") or 0
            )

    def update_settings(self, settings: BaseSettings) -> None:
        """Join ours with what the spider has set; raises ConfigurationError when a crawl begins without a safeguard."""
        _register(settings)
        if self._crawler.crawling:
            check_safeguards(settings)


def _register(settings: BaseSettings) -> None:
    settings.update({**DEFAULTS, **parts.VALUES}, _PRIORITY)
    for name, components in parts.BASES.items():
        settings[f"{name}_BASE"].update(dict(components), _PRIORITY)
    for name, components in parts.MERGED.items():
        # Scrapy fills DOWNLOAD_HANDLERS_BASE with this priority, after the add-ons
        priority = max(settings.getpriority(name) or 0, SETTINGS_PRIORITIES["project"])
        settings.set(name, {**components, **settings.getdict(name)}, priority)


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
    if "address_guard" not in waived:
        _check_handlers(settings)
    for name, safeguard in SAFEGUARDS.items():
        if name not in waived and not _has(settings, safeguard):
            raise ConfigurationError(
                f"{safeguard.setting}, set by {_source(settings, safeguard.setting)}, leaves out {safeguard.path}, "
                f"without which {safeguard.loss}: put it back, or set CRAWL_WITHOUT = [{name!r}] if you mean it"
            )


def _check_handlers(settings: BaseSettings) -> None:
    """Raises ConfigurationError for a download handler that connects without asking the address guard."""
    for scheme in ("http", "https", "ftp"):
        path = read(settings, "DOWNLOAD_HANDLERS").get(scheme)
        if path and not any(one.__module__.startswith("webcrawl.") for one in load_object(path).__mro__):
            raise ConfigurationError(
                f"DOWNLOAD_HANDLERS, set by {_source(settings, 'DOWNLOAD_HANDLERS')}, names {path} for {scheme}, which "
                f"connects without the address guard: use {parts.DOWNLOAD_HANDLERS[scheme]} or a class derived from "
                "it, "
                "or set CRAWL_WITHOUT = ['address_guard'] if you mean it"
            )


def _has(settings: BaseSettings, safeguard: Safeguard) -> bool:
    wanted = load_object(safeguard.path)
    return any(issubclass(one, wanted) for one in _classes(settings, safeguard.setting))


def _classes(settings: BaseSettings, name: str) -> Iterator[type[Any]]:
    """The classes that a setting registers, by a table or by a single name."""
    is_table = isinstance(settings[name], BaseSettings)
    for path in settings.get_component_priority_dict_with_base(name) if is_table else [settings[name]]:
        loaded = load_object(path)
        if isinstance(loaded, type):
            yield loaded


def _source(settings: BaseSettings, name: str) -> str:
    """Who set a setting."""
    return _SOURCES.get(settings.getpriority(name) or 0, "a call")
