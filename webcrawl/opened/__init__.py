"""A crawl to look at or to steer: its settings, its stores and its part of the engine, without what crawls."""

from webcrawl.opened.connection import Connection
from webcrawl.opened.crawl import DEFAULT_CRAWL, OpenedCrawl, host_named

__all__ = ["DEFAULT_CRAWL", "Connection", "OpenedCrawl", "host_named"]
