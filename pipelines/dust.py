"""The short name of `webcrawl.pipelines.dust`."""

from webcrawl.pipelines.dust import DustPipeline

__all__ = ["DustPipeline"]
