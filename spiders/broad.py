"""The short name of `webcrawl.spiders.broad`."""

from webcrawl.spiders.base import BroadSpider
from webcrawl.spiders.broad import Broad

__all__ = ["Broad", "BroadSpider"]
