"""The short name of `webcrawl.pipelines.checksum`."""

from webcrawl.pipelines.checksum import ChecksumPipeline

__all__ = ["ChecksumPipeline"]
