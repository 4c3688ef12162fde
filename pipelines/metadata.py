"""The short name of `webcrawl.pipelines.metadata`."""

from webcrawl.pipelines.metadata import MetadataPipeline

__all__ = ["MetadataPipeline"]
