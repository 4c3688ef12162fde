"""The short name of `webcrawl.middlewares.outlinks`."""

from webcrawl.middlewares.outlinks import OutlinksMiddleware

__all__ = ["OutlinksMiddleware"]
