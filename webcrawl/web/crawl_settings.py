"""The settings that the form of a crawl has: limits and switches that name no path, class, command or expression."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from webcrawl.config import DECLARED
from webcrawl.config.kinds import Choice, Flag, Number, Whole
from webcrawl.config.setting import Settings
from webcrawl.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class SettingField:
    """A field of the form. `choices`: the values to choose from; () for a field to type in."""

    name: str
    label: str
    hint: str = ""

    @property
    def choices(self) -> tuple[str, ...]:
        kind = DECLARED[self.name].kind
        if isinstance(kind, Flag):
            return ("True", "False")
        return tuple(kind.words) if isinstance(kind, Choice) else ()

    @property
    def is_number(self) -> bool:
        return isinstance(DECLARED[self.name].kind, Number | Whole)

    def default(self, settings: Settings) -> str:
        """Returns the value without the form, as text; "" for none or a wrong one."""
        try:
            value = DECLARED[self.name].read(settings)
        except ConfigurationError:
            return ""
        return as_field(value) or ("none" if value in ("", []) else "")


LIMITS = (
    SettingField("CRAWL_MAX_PAGES", "Most pages", "0: no limit"),
    SettingField("HOST_MAX_PAGES", "Most pages of a host", "0: no limit"),
    SettingField("CRAWL_MAX_BYTES", "Most bytes", "received; 0: no limit"),
    SettingField("DEPTH_LIMIT", "Greatest depth", "links from a seed; 0: no limit"),
    SettingField("DOWNLOAD_DELAY", "Delay", "seconds between requests to a host"),
    SettingField("CONCURRENT_REQUESTS", "Open requests", "of all hosts"),
)
MORE = (
    SettingField("HOST_MAX_BYTES", "Most bytes of a host", "0: no limit"),
    SettingField("DOWNLOAD_MAXSIZE", "Most bytes of a response", "0: no limit"),
    SettingField("OFFSITE_HOPS", "Links outside the scope", "in a row"),
    SettingField("ALLOWED_DOMAINS", "Only these domains", "with commas between them"),
    SettingField("DENIED_DOMAINS", "Not these domains", "with commas between them"),
    SettingField("SITEMAPS_FROM_ROBOTS", "Sitemaps that robots.txt names"),
    SettingField("PAGE_RESOURCES", "Styles, scripts and images of pages"),
    SettingField("FRONTIER_ORDER", "Order"),
    SettingField("CRAWL_WEIGHT", "Weight", "among crawls of one engine"),
    SettingField("REVISIT", "Fetch stored pages again only if changed"),
    SettingField("AI_OPT_OUTS", "Opt-outs from use by artificial intelligence"),
    SettingField("NEAR_DUPLICATES", "Near-duplicates"),
    SettingField("LINKS", "Store links"),
    SettingField("TEXT", "Store texts", "wet, parquet, feed"),
    SettingField("TEXT_MARKDOWN", "Texts as Markdown too"),
)
ALLOWED: Mapping[str, SettingField] = {each.name: each for each in (*LIMITS, *MORE)}


def as_field(value: Any) -> str:
    """Returns the value of a setting as the text of its field."""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
