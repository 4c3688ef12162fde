"""Spans are those of sampled pages; a wrong variable stops the crawl, and a collector that is away does not."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from unittest import mock

import pytest
from hypothesis import given, strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, TraceIdRatioBased

from tests.collector import Collector
from tests.ports import free_ports
from webcrawl.errors import ConfigurationError
from webcrawl.frontier import LeasedURL, Settlement
from webcrawl.metrics import exporting
from webcrawl.metrics.exporting import Exporting
from webcrawl.metrics.observations import Observations
from webcrawl.metrics.traces import Traces
from webcrawl.worker.leased_host import Arrivals

PATHS = st.sampled_from("abc")


def url(path: str, index: int = 0) -> LeasedURL:
    return LeasedURL(index, "http://a.test:8000", f"/{path}", 3, 1, 0, 2, None, None)


def traces_to(exporter: InMemorySpanExporter, sampler: object = ALWAYS_ON) -> Traces:
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)  # type: ignore[arg-type]
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Traces(provider.get_tracer("test"))


@given(st.lists(st.tuples(st.sampled_from(["begin", "add", "end"]), PATHS)))
def test_each_page_that_began_is_exported_once_with_its_stages(steps: list[tuple[str, str]]) -> None:
    exporter = InMemorySpanExporter()
    traces = traces_to(exporter)
    expected: list[list[str]] = []
    now: dict[str, list[str]] = {}
    for at, (step, path) in enumerate(steps):
        if step == "begin":
            traces.begin(url(path), at)
            now.setdefault(url(path).url, [])
        elif step == "add":
            traces.add(url(path).url, "body", at, at + 1)
            if url(path).url in now:
                now[url(path).url].append("body")
        else:
            traces.end(url(path).url, at, Settlement(0))
            expected += [now.pop(url(path).url)] if url(path).url in now else []
    traces.close()
    expected += now.values()
    spans = exporter.get_finished_spans()
    pages = [span for span in spans if span.name == "page"]
    assert len(pages) == len(expected)
    for page, stages in zip(pages, expected, strict=True):
        inside = [span.name for span in spans if span.parent and span.parent.span_id == page.context.span_id]
        assert inside == stages


def test_pages_that_the_sampler_leaves_out_keep_nothing() -> None:
    exporter = InMemorySpanExporter()
    traces = traces_to(exporter, ALWAYS_OFF)
    traces.begin(url("a"), 0.0)
    traces.add(url("a").url, "body", 0.0, 1.0)
    traces.end(url("a").url, 2.0)
    assert (exporter.get_finished_spans(), traces._ways) == ((), {})
    some = traces_to(exporter, TraceIdRatioBased(0.5))
    for index in range(200):
        some.begin(url(str(index)), 0.0)
    some.close()
    assert 50 < len(exporter.get_finished_spans()) < 150


def test_a_lease_that_is_lost_ends_the_way_of_its_urls() -> None:
    exporter = InMemorySpanExporter()
    observed = Observations()
    observed.traces = traces_to(exporter)
    arrivals = Arrivals(observed)
    urls = [url(path, index) for index, path in enumerate("abc")]
    arrivals.add(urls)
    for one in urls[:2]:
        arrivals.hand_out(one, 10.0**9)
    arrivals.acknowledge(Settlement(0), 10.0**9, 10.0**9)
    arrivals.close()
    outcomes = [
        span.attributes["crawl.outcome"]
        for span in exporter.get_finished_spans()
        if span.attributes and "crawl.outcome" in span.attributes
    ]
    # the third one never left the queue
    assert outcomes == ["done", "returned"]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OTEL_TRACES_SAMPLER", "sometimes", "OTEL_TRACES_SAMPLER is 'sometimes'; TRACES knows always_on, "),
        ("OTEL_TRACES_SAMPLER_ARG", "2", "OTEL_TRACES_SAMPLER_ARG is '2', not a number from 0 to 1"),
        ("OTEL_TRACES_SAMPLER_ARG", "nan", "OTEL_TRACES_SAMPLER_ARG is 'nan', not a number from 0 to 1"),
        ("OTEL_TRACES_SAMPLER_ARG", "1 %", "OTEL_TRACES_SAMPLER_ARG is '1 %', not a number from 0 to 1"),
        ("OTEL_TRACES_EXPORTER", "console", "OTEL_TRACES_EXPORTER is 'console'; TRACES knows otlp"),
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "grpc",
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; TRACES knows http/protobuf",
        ),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "collector:4318",
            "OTEL_EXPORTER_OTLP_ENDPOINT is 'collector:4318', not a URL",
        ),
        (
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "http://[",
            r"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is 'http://\[', not a",
        ),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "OTEL_BSP_...: max_queue_size must be a positive integer"),
    ],
)
def test_a_wrong_variable_is_refused(name: str, value: str, said: str) -> None:
    environment = {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5", name: value}
    with mock.patch.dict(os.environ, environment), pytest.raises(ConfigurationError, match=f"^{said}"):
        Exporting("docs", "here:1")


@pytest.mark.parametrize("is_away", [True, False], ids=["away", "refuses"])
def test_the_end_does_not_wait_for_a_collector_that_takes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_away: bool
) -> None:
    monkeypatch.setattr(exporting, "_CLOSE_SECONDS", 0.1)
    monkeypatch.setattr(exporting._seldom, "last", -math.inf)
    with Collector(status=503) as collector:
        (port,) = free_ports(1)
        endpoint = f"http://127.0.0.1:{port}" if is_away else collector.endpoint
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)

        async def send() -> None:
            sending = Exporting("docs", "here:1")
            for path in "abc":
                sending.tracer.start_span(path).end()
            await sending.close()

        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                asyncio.run(send())
        assert collector.spans == []
    (told,) = caplog.records
    assert told.getMessage().startswith("Traces are lost: ")
