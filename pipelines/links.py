"""The short name of `webcrawl.pipelines.links`."""

from webcrawl.pipelines.links import LinksPipeline

__all__ = ["LinksPipeline"]
