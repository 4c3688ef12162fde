"""The short name of `webcrawl.middlewares.html_process`."""

from webcrawl.middlewares.html_process import HtmlProcessMiddleware

__all__ = ["HtmlProcessMiddleware"]
