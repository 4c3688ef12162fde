"""The short name of `webcrawl.pipelines.text`."""

from webcrawl.pipelines.text import TextPipeline

__all__ = ["TextPipeline"]
