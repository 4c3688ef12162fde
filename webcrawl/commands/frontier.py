"""`scrapy frontier`: the former name of `scrapy status`."""

from __future__ import annotations

from webcrawl.commands import status


class Command(status.Command):
    """Works as `scrapy status`."""
