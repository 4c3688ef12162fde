"""A polite, durable web crawler on Scrapy, for one machine or a thousand.

The names in `__all__` are public: programs, spiders and components import them from `webcrawl`, and docs/stability.md
says what they promise. Modules below may change in any version.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webcrawl.addon import WebcrawlAddon
    from webcrawl.crawler.command import OpenedCrawlCommand
    from webcrawl.crawler.components import Reads
    from webcrawl.crawler.download.protocol import Answer, Protocol
    from webcrawl.crawler.pages.mime_pipeline import MimePipeline
    from webcrawl.documents.document import Document
    from webcrawl.documents.html.text import visible_text
    from webcrawl.documents.mime.facts import Facts, Link
    from webcrawl.documents.mime.zipped import Zipped
    from webcrawl.engine.scripts import script_call
    from webcrawl.errors import (
        BrokenTransfer,
        ConfigurationError,
        CrawlError,
        InvalidURL,
        NoSuchObject,
        StoreError,
        StoreUnavailable,
        UnreadableDocument,
    )
    from webcrawl.frontier import Frontier
    from webcrawl.hosts.politeness import Outcome, Throttled
    from webcrawl.metrics.exposition import crawl_exposition
    from webcrawl.middlewares.politeness import PolitenessMiddleware
    from webcrawl.opened import OpenedCrawl, host_named
    from webcrawl.page import Page
    from webcrawl.policies.priorities import Prospect, Term
    from webcrawl.spiders.base import BroadSpider
    from webcrawl.stores.objects.store import ObjectStore, StoredObject
    from webcrawl.urls.filters import URLFilter

__version__ = "0.1.0"

_HOMES = {
    "addon": ("WebcrawlAddon",),
    "crawler.command": ("OpenedCrawlCommand",),
    "crawler.components": ("Reads",),
    "crawler.download.protocol": ("Answer", "Protocol"),
    "crawler.pages.mime_pipeline": ("MimePipeline",),
    "documents.document": ("Document",),
    "documents.html.text": ("visible_text",),
    "documents.mime.facts": ("Facts", "Link"),
    "documents.mime.zipped": ("Zipped",),
    "engine.scripts": ("script_call",),
    "errors": (
        "BrokenTransfer",
        "ConfigurationError",
        "CrawlError",
        "InvalidURL",
        "NoSuchObject",
        "StoreError",
        "StoreUnavailable",
        "UnreadableDocument",
    ),
    "frontier": ("Frontier",),
    "hosts.politeness": ("Outcome", "Throttled"),
    "metrics.exposition": ("crawl_exposition",),
    "middlewares.politeness": ("PolitenessMiddleware",),
    "opened": ("OpenedCrawl", "host_named"),
    "page": ("Page",),
    "policies.priorities": ("Prospect", "Term"),
    "spiders.base": ("BroadSpider",),
    "stores.objects.store": ("ObjectStore", "StoredObject"),
    "urls.filters": ("URLFilter",),
}
"""Module -> its public names. They are imported at their first use, because some modules take long to import."""

__all__ = [
    "Answer",
    "BroadSpider",
    "BrokenTransfer",
    "ConfigurationError",
    "CrawlError",
    "Document",
    "Facts",
    "Frontier",
    "InvalidURL",
    "Link",
    "MimePipeline",
    "NoSuchObject",
    "ObjectStore",
    "OpenedCrawl",
    "OpenedCrawlCommand",
    "Outcome",
    "Page",
    "PolitenessMiddleware",
    "Prospect",
    "Protocol",
    "Reads",
    "StoreError",
    "StoreUnavailable",
    "StoredObject",
    "Term",
    "Throttled",
    "URLFilter",
    "UnreadableDocument",
    "WebcrawlAddon",
    "Zipped",
    "crawl_exposition",
    "host_named",
    "script_call",
    "visible_text",
]


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(f"webcrawl.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'webcrawl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
