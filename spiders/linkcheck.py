"""The short name of `webcrawl.spiders.linkcheck`."""

from webcrawl.spiders.linkcheck import LinkCheck

__all__ = ["LinkCheck"]
