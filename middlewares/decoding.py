"""The short name of `webcrawl.middlewares.decoding`."""

from webcrawl.middlewares.decoding import DecodingMiddleware

__all__ = ["DecodingMiddleware"]
