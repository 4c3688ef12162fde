"""The short name of `webcrawl.pipelines.listeners`."""

from webcrawl.pipelines.listeners import ListenersPipeline

__all__ = ["ListenersPipeline"]
