"""The short name of `webcrawl.middlewares.large_html`."""

from webcrawl.middlewares.large_html import LargeHtmlMiddleware

__all__ = ["LargeHtmlMiddleware"]
