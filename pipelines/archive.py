"""The short name of `webcrawl.pipelines.archive`."""

from webcrawl.pipelines.archive import ArchivePipeline

__all__ = ["ArchivePipeline"]
