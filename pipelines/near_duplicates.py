"""The short name of `webcrawl.pipelines.near_duplicates`."""

from webcrawl.pipelines.near_duplicates import NearDuplicatesPipeline

__all__ = ["NearDuplicatesPipeline"]
