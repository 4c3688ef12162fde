"""The short name of `webcrawl.pipelines.html`."""

from webcrawl.pipelines.html import HtmlPipeline

__all__ = ["HtmlPipeline"]
