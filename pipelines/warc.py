"""The short name of `webcrawl.pipelines.warc`."""

from webcrawl.pipelines.warc import WarcPipeline

__all__ = ["WarcPipeline"]
