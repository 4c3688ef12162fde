"""The short name of `webcrawl.pipelines.pattern_records`."""

from webcrawl.pipelines.pattern_records import PatternRecordsPipeline

__all__ = ["PatternRecordsPipeline"]
