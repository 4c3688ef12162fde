"""The short name of `webcrawl.pipelines.feed`."""

from webcrawl.pipelines.feed import FeedPipeline

__all__ = ["FeedPipeline"]
