"""The short name of `webcrawl.spiders.monitor`."""

from webcrawl.spiders.monitor import Monitor

__all__ = ["Monitor"]
