"""The short name of `webcrawl.pipelines.media`."""

from webcrawl.pipelines.media import MediaPipeline

__all__ = ["MediaPipeline"]
