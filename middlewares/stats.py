"""The short name of `webcrawl.middlewares.stats`."""

from webcrawl.middlewares.stats import StatsMiddleware

__all__ = ["StatsMiddleware"]
