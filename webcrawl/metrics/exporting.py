"""Sends traces to a collector, configured by OpenTelemetry's environment variables."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Mapping
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer

from webcrawl.errors import ConfigurationError

_ALLOWED = {
    "OTEL_TRACES_EXPORTER": ("otlp",),
    "OTEL_EXPORTER_OTLP_PROTOCOL": ("http/protobuf",),
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": ("http/protobuf",),
    "OTEL_TRACES_SAMPLER": (
        "always_on",
        "always_off",
        "traceidratio",
        "parentbased_always_on",
        "parentbased_always_off",
        "parentbased_traceidratio",
    ),
}
"""The allowed values of variables: the library ignores other values, or they choose signals that are not sent."""
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_LOGGERS = ("opentelemetry.exporter.otlp.proto.http.trace_exporter", "opentelemetry.sdk._shared_internal")
_SILENT_SECONDS = 600.0
_LONGEST_REASON = 200
_CLOSE_SECONDS = 5.0
"""How long the end of a crawl waits for a collector."""


class _Seldom(logging.Filter):
    """Passes one message in ten minutes: without a collector, the library logs messages every few seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.last = -math.inf

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self.last < _SILENT_SECONDS:
            return False
        self.last = now
        record.msg, record.args = "Traces are lost: %s", (record.getMessage()[:_LONGEST_REASON],)
        return True


_seldom = _Seldom()


class Exporting:
    """Sends the spans of a worker in batches, in its own thread. Raises ConfigurationError for a wrong variable."""

    def __init__(self, crawl: str, worker: str) -> None:
        _check(os.environ)
        ours = {"service.name": "webcrawl", "service.instance.id": worker, "crawl.id": crawl}
        resource = Resource.create({**ours, **OTELResourceDetector().detect().attributes})
        self._exporter = OTLPSpanExporter()
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        try:
            self._provider.add_span_processor(BatchSpanProcessor(self._exporter))
        except ValueError as error:
            raise ConfigurationError(f"OTEL_BSP_...: {error}") from error
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_seldom)

    @property
    def tracer(self) -> Tracer:
        """The OpenTelemetry tracer, which makes the spans."""
        return self._provider.get_tracer("webcrawl")

    async def close(self) -> None:
        """Sends the remaining spans; gives up after a few seconds without an answer."""
        closing = asyncio.ensure_future(asyncio.to_thread(self._provider.shutdown))
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await asyncio.shield(closing)
        except TimeoutError:
            self._exporter.shutdown()  # type: ignore[no-untyped-call]
            await closing


def _check(environment: Mapping[str, str]) -> None:
    """Raises ConfigurationError for a variable that the library would replace by its default, or that it refuses."""
    for name, allowed in _ALLOWED.items():
        if (value := environment.get(name)) and value.strip().lower() not in allowed:
            raise ConfigurationError(f"{name} is {value!r}; TRACES knows {', '.join(allowed)}")
    for name in _ENDPOINTS:
        if value := environment.get(name):
            _check_endpoint(name, value)
    if "ratio" in environment.get("OTEL_TRACES_SAMPLER", ""):
        _check_ratio(environment.get("OTEL_TRACES_SAMPLER_ARG", ""))


def _check_endpoint(name: str, value: str) -> None:
    try:
        parts = urlsplit(value)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not fits:
        raise ConfigurationError(f"{name} is {value!r}, not a URL like http://127.0.0.1:4318")


def _check_ratio(value: str) -> None:
    try:
        fits = 0 <= float(value) <= 1
    except ValueError:
        fits = False
    if not fits:
        raise ConfigurationError(f"OTEL_TRACES_SAMPLER_ARG is {value!r}, not a number from 0 to 1")
