"""The add-on that makes the crawls of a Scrapy project crawls of webcrawl.

    ADDONS = {"webcrawl.addon.WebcrawlAddon": 100}

It registers the parts of `webcrawl.config.parts` and the defaults of docs/reference/settings.md. The project's
settings, the `custom_settings` of a spider and `-s` take precedence. Components in these settings join ours; None
leaves a component out.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Self

from scrapy.crawler import Crawler
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from webcrawl.config import DEFAULTS, parts
from webcrawl.config.kinds import Seconds
from webcrawl.config.passwords import hide_in_log
from webcrawl.config.setting import Setting
from webcrawl.config.start import warn_of_mistakes
from webcrawl.config.without_effect import warn_without_effect
from webcrawl.crawler.misspelt_settings import misspelt
from webcrawl.crawler.safeguards import check_safeguards
from webcrawl.temporary.isolation import is_temporary

_PRIORITY = "addon"
_TIMEOUT = Setting("CLOSESPIDER_TIMEOUT", 0.0, "Scrapy's limit of a crawl's time", Seconds())
logger = logging.getLogger(__name__)


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

        The components are registered too, so that a spider that replaces ADDONS is refused by ours.
        """
        _register(settings)
        modules = settings.getlist("SPIDER_MODULES")
        if parts.SPIDERS not in modules:
            # first, because a spider of the project replaces our spider of the same name
            settings.set(
                "SPIDER_MODULES", [parts.SPIDERS, *modules], settings.getpriority("SPIDER_MODULES") or 0
            )

    def update_settings(self, settings: BaseSettings) -> None:
        """Join the parts of webcrawl with what the spider has set.

        When a crawl begins, log the settings that have no effect here, and raise ConfigurationError if a safeguard
        is missing.
        """
        _register(settings)
        # Scrapy reads it as a number
        settings.set(_TIMEOUT.name, _TIMEOUT.read(settings), settings.getpriority(_TIMEOUT.name) or 0)
        # Scrapy logs the settings there, next
        logging.getLogger("scrapy.crawler").addFilter(hide_in_log)
        if self._crawler.crawling:
            check_safeguards(settings)
            if not is_temporary(settings):
                warn_without_effect(settings)
                warn_of_mistakes(settings)
                for mistake in misspelt(settings):
                    logger.warning("%s", mistake)


def _register(settings: BaseSettings) -> None:
    settings.update({**DEFAULTS, **parts.VALUES}, _PRIORITY)
    for name, components in parts.BASES.items():
        settings[f"{name}_BASE"].update(dict(components), _PRIORITY)
    for name, components in parts.MERGED.items():
        # Scrapy fills DOWNLOAD_HANDLERS_BASE with this priority, after the add-ons
        priority = max(settings.getpriority(name) or 0, SETTINGS_PRIORITIES["project"])
        # the check of all settings reports a value that is no dict, in one line
        with suppress(TypeError, ValueError):
            settings.set(name, {**components, **settings.getdict(name)}, priority)
