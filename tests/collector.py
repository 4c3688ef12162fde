"""A collector of OpenTelemetry on this machine, which keeps the spans that it gets."""

from __future__ import annotations

import gzip
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

PATH = "/v1/traces"


class Received(NamedTuple):
    """A span, with the attributes of what sent it. Times are Unix times in nanoseconds."""

    name: str
    trace: bytes
    id: bytes
    parent: bytes
    began: int
    ended: int
    failure: str
    attributes: dict[str, Any]
    resource: dict[str, Any]


class Collector(ThreadingHTTPServer):
    """Receives OTLP over HTTP. `status` is its answer; anything but 200 refuses spans."""

    daemon_threads = True

    def __init__(self, status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status = status
        self.spans: list[Received] = []

    @property
    def endpoint(self) -> str:
        """The value of OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self.server_port}"

    def traces(self) -> list[dict[str, Received]]:
        """The spans of each trace by name."""
        found: dict[bytes, dict[str, Received]] = defaultdict(dict)
        for span in self.spans:
            assert span.name not in found[span.trace], "a page has each stage once"
            found[span.trace][span.name] = span
        return [*found.values()]

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert (self.path, self.headers["Content-Type"]) == (PATH, "application/x-protobuf")
        if self.server.status == 200:
            self.server.spans += _spans(ExportTraceServiceRequest.FromString(body))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(ExportTraceServiceResponse().SerializeToString())

    def log_message(self, format: str, *args: object) -> None:
        pass


def _spans(request: Any) -> list[Received]:
    return [
        Received(
            span.name,
            span.trace_id,
            span.span_id,
            span.parent_span_id,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            span.status.message if span.status.code == 2 else "",
            _plain(span.attributes),
            _plain(group.resource.attributes),
        )
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _plain(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}
