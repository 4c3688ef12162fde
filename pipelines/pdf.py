"""The short name of `webcrawl.pipelines.pdf`."""

from webcrawl.pipelines.pdf import PdfPipeline

__all__ = ["PdfPipeline"]
