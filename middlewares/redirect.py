"""The short name of `webcrawl.middlewares.redirect`."""

from webcrawl.middlewares.redirect import RedirectMiddleware

__all__ = ["RedirectMiddleware"]
