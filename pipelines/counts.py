"""The short name of `webcrawl.pipelines.counts`."""

from webcrawl.pipelines.counts import CountsPipeline

__all__ = ["CountsPipeline"]
