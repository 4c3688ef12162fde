"""The short name of `webcrawl.spiders.live`."""

from webcrawl.spiders.live import Live

__all__ = ["Live"]
