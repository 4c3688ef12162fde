"""Imports the libraries that only metrics and traces need."""

from __future__ import annotations

from types import ModuleType

from webcrawl.config.libraries import optional


def prometheus_client() -> ModuleType:
    """Returns prometheus_client; raises LibraryMissing."""
    return optional("the format of Prometheus", "prometheus-client", "metrics", "prometheus_client")


def opentelemetry() -> ModuleType:
    """Returns the exporter of traces, which brings the rest of OpenTelemetry; raises LibraryMissing."""
    library = "opentelemetry-exporter-otlp-proto-http"
    return optional("TRACES", library, "traces", "opentelemetry.exporter.otlp.proto.http.trace_exporter")
