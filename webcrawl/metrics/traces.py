"""Traces pages through a worker with OpenTelemetry, with a span for each stage.

The times are those of the histograms. A page that is not sampled costs only the call of the sampler.
"""

from __future__ import annotations

import time
from typing import NamedTuple
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.trace import Span, StatusCode, Tracer, set_span_in_context

from webcrawl.frontier import LeasedURL, Settlement

PAGE = "page"
"""The name of the span that contains the stages of a page."""
LIVE = "live"
"""The name of the span of a URL of the live lane, from its message to its answer."""
_NO_PARENT = Context()


class _Stage(NamedTuple):
    """A stage between two monotonic times. `inside`: the stage that contains it, or ""."""

    name: str
    began: float
    ended: float
    inside: str


class _Way(NamedTuple):
    """A traced page. `offset`: the seconds from monotonic to Unix time, the same for all spans of the page."""

    span: Span
    offset: float
    stages: list[_Stage]

    def at(self, monotonic: float) -> int:
        """Returns a monotonic time as Unix time in nanoseconds."""
        return int((monotonic + self.offset) * 1e9)


class Traces:
    """The pages of a worker that are being traced, by URL. Times are monotonic."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._ways: dict[str, _Way] = {}

    def begin(self, url: LeasedURL, at: float) -> None:
        """Begins the trace of a URL that was leased at the time `at`, if the sampler selects the URL.

        A second request for a URL that is being traced, such as a request with another body, is not traced.
        """
        if url.url in self._ways:
            return
        offset = time.time() - time.monotonic()
        span = self._tracer.start_span(PAGE, _NO_PARENT, start_time=int((at + offset) * 1e9))
        if span.is_recording():
            self._ways[url.url] = _Way(span, offset, [])
            span.set_attributes(
                {
                    "url.full": url.url,
                    "server.address": urlsplit(url.host).hostname or "",
                    "crawl.depth": url.depth,
                    "crawl.attempt": url.attempts + 1,
                }
            )

    def add(self, url: str, stage: str, began: float, ended: float, inside: str = "") -> None:
        """Adds a stage to the trace of a URL, if the URL is traced. `inside`: the stage that contains the new stage."""
        if way := self._ways.get(url):
            way.stages.append(_Stage(stage, began, ended, inside))

    def answered(self, url: str, status: int, size: int) -> None:
        """Records the status of the response, and the bytes of its body as they were sent."""
        if way := self._ways.get(url):
            way.span.set_attributes({"http.response.status_code": status, "http.response.body.size": size})

    def end(self, url: str, at: float, settlement: Settlement | None = None) -> None:
        """Exports the trace of a URL, if the URL is traced. Without settlement, the URL was returned to the engine."""
        if way := self._ways.pop(url, None):
            way.span.set_attribute("crawl.outcome", settlement.verdict if settlement else "returned")
            if settlement and settlement.verdict in ("retry", "dead"):
                way.span.set_status(StatusCode.ERROR, settlement.reason)
            self._export(way)
            way.span.end(way.at(at))

    def answered_live(self, url: str, put: float, final_url: str, outcome: str, request: str) -> None:
        """Exports the trace of a URL of the live lane, from its message at the Unix time `put` until now.

        `request`: who asked for it.
        """
        span = self._tracer.start_span(LIVE, _NO_PARENT, start_time=int(put * 1e9))
        span.set_attributes({"url.full": url, "live.final_url": final_url, "live.outcome": outcome})
        if request:
            span.set_attribute("live.request", request)
        span.end()

    def close(self) -> None:
        """Exports unfinished traces, such as those of pages that the last report has acknowledged."""
        for url in [*self._ways]:
            self.end(url, time.monotonic())

    def _export(self, way: _Way) -> None:
        spans = {"": way.span}
        # sorts stages before the stages that they contain, although those ended earlier
        for stage in sorted(way.stages, key=lambda stage: bool(stage.inside)):
            parent = spans.get(stage.inside, way.span)
            context = set_span_in_context(parent, _NO_PARENT)
            spans[stage.name] = self._tracer.start_span(stage.name, context, start_time=way.at(stage.began))
            spans[stage.name].end(way.at(stage.ended))
