"""The short name of `webcrawl.spiders.sitemap`."""

from webcrawl.spiders.sitemap import Sitemap

__all__ = ["Sitemap"]
