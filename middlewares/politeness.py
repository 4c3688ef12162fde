"""The short name of `webcrawl.middlewares.politeness`."""

from webcrawl.middlewares.politeness import PolitenessMiddleware

__all__ = ["PolitenessMiddleware"]
