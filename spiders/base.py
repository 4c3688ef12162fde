"""The short name of `webcrawl.spiders.base`."""

from webcrawl.spiders.base import BroadSpider

__all__ = ["BroadSpider"]
