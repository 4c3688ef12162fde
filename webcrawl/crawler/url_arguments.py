"""The arguments and short options of `crawl` and `workers`: a spider, or URLs for the spider `broad`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args
from urllib.parse import urlsplit

from scrapy.spiderloader import get_spider_loader

from webcrawl.config import read
from webcrawl.errors import ConfigurationError, InvalidURL
from webcrawl.urls.scope import ScopeKind
from webcrawl.urls.seeds import read_seeds, seed_url

if TYPE_CHECKING:
    from scrapy.settings import Settings

SPIDER = "broad"
_PAGES = {"format": "pages", "item_filter": "webcrawl.crawler.feeds.PagesFilter"}
"""The options of feeds that take the place of JSON Lines: pages with their text."""
_LINES = ("jsonlines", "jsonl", "jl")
_LONGEST_NAME = 64


def add_short_options(parser: argparse._ActionsContainer) -> None:
    """Adds the options that stand for settings and arguments of a crawl."""
    parser.add_argument(
        "--max-pages", type=int, metavar="N", help="stop after N pages, as -s CRAWL_MAX_PAGES=N"
    )
    parser.add_argument(
        "--for",
        dest="time",
        metavar="TIME",
        help="stop after this time, such as 90s, 2h or 7d, as -s CLOSESPIDER_TIMEOUT=TIME",
    )
    parser.add_argument(
        "--scope",
        choices=get_args(ScopeKind),
        help="follow links in the folders of the URLs, on their hosts, in their domains (default), or anywhere",
    )
    parser.add_argument(
        "--crawl",
        metavar="ID",
        help="name of the crawl, by default the host of the first URL, or the spider's name",
    )


def take_urls(words: list[str], opts: argparse.Namespace, settings: Settings) -> bool:
    """Turns URLs in `words` into the spider and its arguments, and short options into what they stand for.

    Returns whether there were URLs. The name of a spider may look like a URL. Raises ConfigurationError for what is no
    URL to crawl.
    """
    has_urls = _are_urls(words) and words[0] not in get_spider_loader(settings).list()
    if has_urls:
        for word in words:
            if Path(word).is_file():
                raise ConfigurationError(
                    f"{word} is a file: write @{word} for the URLs in it, https://{word} for a host of that name"
                )
        seeds, crawl = seeds_of(words)
        words[:] = [SPIDER]
        opts.spargs = [f"seeds={seeds}", *opts.spargs]
        # Scrapy takes no format for granted on standard output
        opts.output = opts.output and ["-:jsonl" if name == "-" else name for name in opts.output]
        opts.crawl = opts.crawl or read(settings, "CRAWL_ID") or crawl
    short = {"CRAWL_ID": opts.crawl, "CRAWL_MAX_PAGES": opts.max_pages, "CLOSESPIDER_TIMEOUT": opts.time}
    for name, value in short.items():
        opts.set = [*opts.set, *([] if value is None else [f"{name}={value}"])]
    if opts.scope is not None:
        opts.spargs = [*opts.spargs, f"scope={opts.scope}"]
    return has_urls


def _are_urls(words: Sequence[str]) -> bool:
    return bool(words) and (words[0] == "localhost" or any(mark in words[0] for mark in ".:/@"))


def add_texts(opts: argparse.Namespace, settings: Settings) -> None:
    """Makes JSON Lines of a crawl's feeds hold pages with their text, if it has such feeds."""
    feeds = settings.getdict("FEEDS")
    lines = {uri: options for uri, options in feeds.items() if options.get("format") in _LINES}
    if lines:
        formats = {uri: {**options, **_PAGES} for uri, options in lines.items()}
        settings.set("FEEDS", {**feeds, **formats}, priority="cmdline")
        kinds = [kind for kind in read(settings, "TEXT").split(",") if kind and kind != "feed"]
        for name, value in {"TEXT": ",".join([*kinds, "feed"]), "TEXT_MARKDOWN": "True"}.items():
            settings.set(name, value, priority="cmdline")
            opts.set = [*opts.set, f"{name}={value}"]


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
