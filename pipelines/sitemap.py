"""The short name of `webcrawl.pipelines.sitemap`."""

from webcrawl.pipelines.sitemap import SitemapPipeline

__all__ = ["SitemapPipeline"]
