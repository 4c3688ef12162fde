"""Traces the requests to a service with OpenTelemetry: a span for each request, and in it one for each stage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers

_FAILURE = 500


class RequestTraces:
    """The traces of one service."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def request(self, method: str, headers: Headers) -> Iterator[Span]:
        """Traces a request; a header `traceparent` (W3C Trace Context) makes it a part of its sender's trace.

        `answered` ends the span.
        """
        context = self._propagator.extract(dict(headers))
        with self._tracer.start_as_current_span(
            method, context, SpanKind.SERVER, {"http.request.method": method}, end_on_exit=False
        ) as span:
            try:
                yield span
            finally:
                if span.is_recording():  # the client has left
                    span.end()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Traces a stage of the present request."""
        with self._tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False):
            yield


def answered(span: Span, operation: str, request_id: str, status: int) -> None:
    """Ends the span of a request with the head of its answer: events go on for hours."""
    span.update_name(operation)
    span.set_attributes({"http.response.status_code": status, "webcrawl.request_id": request_id})
    if status >= _FAILURE:
        span.set_status(StatusCode.ERROR)
    span.end()
