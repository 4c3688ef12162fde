"""The short name of `webcrawl.pipelines.soft_404`."""

from webcrawl.pipelines.soft_404 import Soft404Pipeline

__all__ = ["Soft404Pipeline"]
