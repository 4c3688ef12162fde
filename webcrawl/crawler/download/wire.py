"""A request and its response as they go over the wire: times, headers, and the bytes for the archive."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus

from scrapy import Request

from webcrawl.documents.body import Body
from webcrawl.documents.exchange import Exchange
from webcrawl.http.heads import Field, ResponseHead
from webcrawl.metrics.observations import Observations
from webcrawl.urls.canonical import without_fragment


@dataclass(slots=True)
class Sending:
    """The times when a request began, got its connection and was sent, by `time.monotonic`."""

    began: float
    connected: float = 0.0
    sent: float = 0.0
    is_kept: bool = False
    """The connection has sent another request before."""

    def latency(self) -> float:
        """Returns the seconds up to the head of the response, which is complete now, without the wait for the turn."""
        return time.monotonic() - self.began - (self.sent - self.connected)

    def observe(self, observed: Observations, url: str) -> None:
        """Observes the stages up to the head of the response, which is complete now."""
        if not self.is_kept:
            observed.stage("connect", url, self.began, self.connected)
        observed.stage("first_byte", url, self.sent)

    def fail(self, observed: Observations, url: str) -> None:
        """Adds the stage in which the request failed to the trace of its page; histograms have whole stages."""
        if observed.traces is not None:
            stage, began = ("first_byte", self.sent) if self.sent else ("connect", self.began)
            observed.traces.add(url, stage, began, time.monotonic())


def sent_fields(request: Request) -> list[Field]:
    """Returns the headers of a request; those for a proxy are sent to no server."""
    return [
        (name, value)
        for name, values in request.headers.items()
        if name != b"Proxy-Authorization"
        for value in values
    ]


def exchange_over(
    request: Request, sent: bytes, head: ResponseHead, peer: str | None, payload: Body, truncated: str | None
) -> Exchange:
    """Returns request and response; `sent` is the head of the request, `peer` the address of the server."""
    return Exchange(
        url=without_fragment(request.url),
        method=request.method,
        request_head=sent,
        request_body=request.body,
        status=head.status,
        response_head=head.sent,
        payload=payload,
        ip_address=peer,
        fetched_at=datetime.now(UTC),
        truncated=truncated,
    )


def phrase(status: int) -> str:
    """Returns the reason phrase of a status; empty for an unknown status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
