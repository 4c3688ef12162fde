"""Says at the end of a crawl by which commands its results are looked at."""

from __future__ import annotations

import shlex
from importlib.util import find_spec

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from webcrawl.config import StoreConfig
from webcrawl.frontier.figures import CrawlFigures

_PLACES = ("METADATA_URI", "STORE_URI", "REDIS_URL")
_OF_DASHBOARD = ("starlette", "jinja2", "uvicorn")


def result_commands(stores: StoreConfig, now: CrawlFigures, settings: BaseSettings) -> list[str]:
    """Lines with the commands for what the crawl has stored; none if it has stored no pages.

    A command whose library is not installed is left out.
    """
    rows = []
    if now.stored:
        rows.append(("scrapy page URL", "what is stored about a page; --text, --body"))
        if find_spec("pyarrow"):
            rows.append(("scrapy export -o FOLDER", "all pages as Parquet"))
        else:
            rows.append(("scrapy export --format jsonl -o FOLDER", "all pages as JSON Lines"))
    if now.stored and now.archived and find_spec("tantivy"):
        rows.append(("scrapy index", "then: scrapy search WORDS"))
    if now.stored and stores.keeps_links:
        rows.append(("scrapy links URL", "the links on a page; with --in those to it"))
    if now.stored and all(find_spec(name) for name in _OF_DASHBOARD):
        rows.append(("scrapy dashboard", "the crawl as pages in a browser"))
    width = max((len(command) for command, _ in rows), default=0)
    lines = [f"{command:<{width}}  {what}" for command, what in rows]
    if rows and (options := _options(settings)):
        lines.append(f"each with: {options}")
    return [f"  {'' if number else 'look with':<10}  {line}" for number, line in enumerate(lines)]


def _options(settings: BaseSettings) -> str:
    """The options of the command line that the commands need too; a URI may contain a password and is left out."""
    words = []
    if _is_option(settings, "DATA_DIR"):
        words.append(f"-s {shlex.quote('DATA_DIR=' + str(settings['DATA_DIR']))}")
    words += [f"-s {name}=..." for name in _PLACES if _is_option(settings, name)]
    return " ".join(words)


def _is_option(settings: BaseSettings, name: str) -> bool:
    return settings.getpriority(name) == SETTINGS_PRIORITIES["cmdline"]
