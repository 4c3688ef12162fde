"""The way of a page through a worker as a trace of OpenTelemetry, with one span for each stage.

The times are the times of the histograms. For a page that is not sampled, only the sampler is asked.
"""

from __future__ import annotations

import time
from typing import NamedTuple
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.trace import Span, StatusCode, Tracer, set_span_in_context

from webcrawl.frontier import LeasedURL, Settlement

PAGE = "page"
"""The name of the span that has the stages of a page in it."""
_NO_PARENT = Context()


class _Stage(NamedTuple):
    """A stage between two monotonic times. `inside`: the stage that it is a part of, or ""."""

    name: str
    began: float
    ended: float
    inside: str


class _Way(NamedTuple):
    """A page that is traced. `offset`: seconds from monotonic to Unix time, the same for all its spans."""

    span: Span
    offset: float
    stages: list[_Stage]

    def at(self, monotonic: float) -> int:
        """Unix time in nanoseconds."""
        return int((monotonic + self.offset) * 1e9)


class Traces:
    """The pages of one worker that are traced now, by URL. Times are monotonic."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._ways: dict[str, _Way] = {}

    def begin(self, url: LeasedURL, at: float) -> None:
        """Begins the way of a URL that was leased at a time, if the sampler takes it.

        Another request for the same URL that is under way, as one with another body, is left out.
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
        """Adds a stage to the way of a URL, if it is traced. `inside`: the stage that it is a part of."""
        if way := self._ways.get(url):
            way.stages.append(_Stage(stage, began, ended, inside))

    def answered(self, url: str, status: int, size: int) -> None:
        """Notes the status of the response, and the bytes of its body as they were sent."""
        if way := self._ways.get(url):
            way.span.set_attributes({"http.response.status_code": status, "http.response.body.size": size})

    def end(self, url: str, at: float, settlement: Settlement | None = None) -> None:
        """Exports the way of a URL, if it is traced. Without settlement, the URL was given back to the engine."""
        if way := self._ways.pop(url, None):
            way.span.set_attribute("crawl.outcome", settlement.verdict if settlement else "returned")
            if settlement and settlement.verdict in ("retry", "dead"):
                way.span.set_status(StatusCode.ERROR, settlement.reason)
            self._export(way)
            way.span.end(way.at(at))

    def close(self) -> None:
        """Exports the ways without an end, as of pages that the last report has acknowledged."""
        for url in [*self._ways]:
            self.end(url, time.monotonic())

    def _export(self, way: _Way) -> None:
        spans = {"": way.span}
        # stages before their parts, although the parts ended earlier
        for stage in sorted(way.stages, key=lambda stage: bool(stage.inside)):
            parent = spans.get(stage.inside, way.span)
            context = set_span_in_context(parent, _NO_PARENT)
            spans[stage.name] = self._tracer.start_span(stage.name, context, start_time=way.at(stage.began))
            spans[stage.name].end(way.at(stage.ended))
