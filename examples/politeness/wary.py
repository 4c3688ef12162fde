"""Treats 403 as a sign that a host was asked too often."""

from __future__ import annotations

from scrapy import Request
from scrapy.http import Response

from webcrawl import Outcome, PolitenessMiddleware, Throttled


class WaryPolitenessMiddleware(PolitenessMiddleware):
    """Backs off from hosts that answer 403, as from those that answer 429."""

    def outcome(self, request: Request, response: Response) -> Outcome:
        if response.status == 403:
            return Throttled()
        return super().outcome(request, response)
