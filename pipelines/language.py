"""The short name of `webcrawl.pipelines.language`."""

from webcrawl.pipelines.language import LanguagePipeline

__all__ = ["LanguagePipeline"]
