"""Why a request that could have gone out did not, and comes again."""

from __future__ import annotations

from scrapy.exceptions import IgnoreRequest


class Postponed(IgnoreRequest):
    """A request that must not go out now, by no fault of its own: the frontier brings it again."""
