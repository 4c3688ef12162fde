"""The short name of `webcrawl.pipelines.office`."""

from webcrawl.pipelines.office import OfficePipeline

__all__ = ["OfficePipeline"]
