"""`crawl URL ...`: a crawl with the spider `broad` that its URLs define."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from webcrawl.config import read
from webcrawl.errors import ConfigurationError, InvalidURL
from webcrawl.urls.seeds import read_seeds, seed_url

if TYPE_CHECKING:
    from scrapy.settings import Settings

SPIDER = "broad"
_PAGES = {"format": "pages", "item_filter": "webcrawl.crawler.feeds.PagesFilter"}
"""The options of feeds that take the place of JSON Lines: pages with their text."""
_LINES = ("jsonlines", "jsonl", "jl")
_LONGEST_NAME = 64


def are_urls(words: Sequence[str]) -> bool:
    """Whether arguments look like URLs, and not like a spider; the name of a spider may have a dot too."""
    return bool(words) and (words[0] == "localhost" or any(mark in words[0] for mark in ".:/@"))


def seeds_of(words: Sequence[str]) -> tuple[str, str]:
    """Returns the argument `seeds` for URLs, and the name of their crawl, by default the host of the first URL.

    `words`: URLs, or one @file. Raises ConfigurationError for what is no URL to crawl.
    """
    is_file = len(words) == 1 and words[0].startswith("@")
    seeds = list(read_seeds(words[0])) if is_file else words
    if not seeds:
        raise ConfigurationError(f"there is no URL in {words[0][1:]}")
    try:
        urls = [seed_url(seed) for seed in seeds]
    except InvalidURL as error:
        raise ConfigurationError(str(error)) from error
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", urlsplit(urls[0]).netloc.rpartition("@")[2]).strip("-")
    # spiders take commas for separators
    return words[0] if is_file else ",".join(url.replace(",", "%2C") for url in urls), name[:_LONGEST_NAME]


def add_texts(settings: Settings) -> None:
    """Makes JSON Lines of a crawl's feeds hold pages with their text, if it has such feeds."""
    feeds = settings.getdict("FEEDS")
    lines = {uri: options for uri, options in feeds.items() if options.get("format") in _LINES}
    if lines:
        formats = {uri: {**options, **_PAGES} for uri, options in lines.items()}
        settings.set("FEEDS", {**feeds, **formats}, priority="cmdline")
        kinds = [kind for kind in read(settings, "TEXT").split(",") if kind and kind != "feed"]
        settings.set("TEXT", ",".join([*kinds, "feed"]), priority="cmdline")
        settings.set("TEXT_MARKDOWN", True, priority="cmdline")
