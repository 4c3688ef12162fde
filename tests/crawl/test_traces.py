"""A collector of OpenTelemetry gets one trace of each page, with the stages of its way."""

from __future__ import annotations

from collections.abc import Callable

from tests.collector import Collector, Received
from tests.crawls import CrawlResult
from tests.nameserver import Nameserver, Record
from tests.ports import free_ports
from tests.web import LocalWeb, Reply

SITE = "pages.test"
IN_PIPELINES = {"archive", "metadata"}
STAGES = ["queue", "turn", "first_byte", "body", "pipelines", "acknowledgement"]
"""Those that every page has, by the same clock."""


def test_each_page_is_a_trace_of_its_stages(
    local_web: Callable[..., LocalWeb], run_crawl: Callable[..., CrawlResult]
) -> None:
    web = local_web(SITE)
    web.put(SITE, "/", "<a href=/busy>x</a>")
    web.put(SITE, "/busy", Reply("later", status=503))
    (port,) = free_ports(1)
    closed = f"http://{SITE}:{port}/"
    with Collector() as collector, Nameserver({SITE: [Record("A", "127.0.0.1")]}) as nameserver:
        run_crawl(
            "broad",
            [web.url(SITE), closed],
            TRACES=True,
            CRAWL_ID="traced",
            ALLOWED_NETWORKS="127.0.0.0/8",
            DNS_SERVERS=nameserver.address,
            ROBOTSTXT_OBEY=False,
            FRONTIER_MAX_ATTEMPTS=1,
            env={
                "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
                "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
                "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=tests",
            },
        )
    traces = {trace["page"].attributes["url.full"]: trace for trace in collector.traces()}
    failed = traces.pop(closed)
    assert {*failed} - {"dns"} == {"page", "queue", "turn", "connect", "metadata", "acknowledgement"}
    assert "http.response.status_code" not in failed["page"].attributes and failed["page"].failure
    first, busy = traces[web.url(SITE)], traces[web.url(SITE, "/busy")]
    assert {*first} - {"dns"} == {*STAGES, *IN_PIPELINES, "page", "connect", "parse"}
    assert {*busy} <= {*first} and "dns" in {*first, *failed} - {*busy}
    for trace, path, outcome, status, size in (
        (first, "/", "done", 200, 19),
        (busy, "/busy", "dead", 503, 5),
    ):
        check_times(trace)
        assert trace["page"].attributes == {
            "url.full": web.url(SITE, path),
            "server.address": SITE,
            "crawl.depth": int(trace is busy),
            "crawl.attempt": 1,
            "crawl.outcome": outcome,
            "http.response.status_code": status,
            "http.response.body.size": size,
        }
        sender = trace["body"].resource
        assert (sender["service.name"], sender["crawl.id"]) == ("webcrawl", "traced")
        assert sender["deployment.environment.name"] == "tests"
    assert (first["page"].failure, busy["page"].failure) == ("", "status 503")


def check_times(trace: dict[str, Received]) -> None:
    """The stages follow each other within the page, those of stores within the pipelines."""
    page = trace["page"]
    assert page.parent == b""
    for name in {*trace} - {"page"}:
        whole = trace["pipelines"] if name in IN_PIPELINES else page
        assert trace[name].parent == whole.id
        assert whole.began <= trace[name].began <= trace[name].ended <= whole.ended
    ends = [
        page.began,
        *(time for name in STAGES for time in (trace[name].began, trace[name].ended)),
        page.ended,
    ]
    assert ends == sorted(ends)
