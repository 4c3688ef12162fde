"""The short name of `webcrawl.pipelines.image`."""

from webcrawl.pipelines.image import ImagePipeline

__all__ = ["ImagePipeline"]
