"""The short name of `webcrawl.middlewares.revisit`."""

from webcrawl.middlewares.revisit import RevisitMiddleware

__all__ = ["RevisitMiddleware"]
