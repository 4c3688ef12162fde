"""A Scrapy add-on that sets constants of the frontier in crawls that run as processes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from scrapy.settings import BaseSettings

from webcrawl.config import FrontierConfig

_from_settings = FrontierConfig.from_settings.__func__  # type: ignore[attr-defined]


def settings(**fields: Any) -> dict[str, str]:
    """Scrapy settings that give the crawl's FrontierConfig these values."""
    addons = {"webcrawl.addon.WebcrawlAddon": 100, "tests.tuning.Tuning": 0}
    return {"ADDONS": json.dumps(addons), "TUNED": json.dumps(fields)}


class Tuning:
    """Applies the JSON in the setting TUNED to every FrontierConfig."""

    def update_settings(self, settings: BaseSettings) -> None:
        fields = settings.getdict("TUNED")

        def from_settings(cls: type[FrontierConfig], *arguments: Any) -> FrontierConfig:
            return replace(_from_settings(cls, *arguments), **fields)

        FrontierConfig.from_settings = classmethod(from_settings)  # type: ignore[assignment,method-assign]
