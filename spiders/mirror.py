"""The short name of `webcrawl.spiders.mirror`."""

from webcrawl.spiders.mirror import Mirror

__all__ = ["Mirror"]
