"""The short name of `webcrawl.middlewares.retry`."""

from webcrawl.middlewares.retry import RetryMiddleware

__all__ = ["RetryMiddleware"]
