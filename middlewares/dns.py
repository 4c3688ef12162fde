"""The short name of `webcrawl.middlewares.dns`."""

from webcrawl.middlewares.dns import DnsMiddleware

__all__ = ["DnsMiddleware"]
