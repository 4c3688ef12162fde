"""The short name of `webcrawl.pipelines.json_data`."""

from webcrawl.pipelines.json_data import JsonDataPipeline

__all__ = ["JsonDataPipeline"]
