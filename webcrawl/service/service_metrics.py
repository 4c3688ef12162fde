"""The metrics of a service, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from webcrawl.metrics.families import Family, MetricSample, gauges
from webcrawl.service.service import Service
from webcrawl.service.tally import STAGES, ServiceTally

SERVICE = "webcrawl_service"
"""The scope of the metrics of a service."""

ANSWERS = Family(
    SERVICE,
    "requests",
    "counter",
    "answered requests by operation, as `operationId` in `/openapi.json`, and status",
    ("operation", "status"),
)
SECONDS = Family(
    SERVICE,
    "request_seconds",
    "histogram",
    "from a request to the head of its answer, with `wait`",
    ("operation",),
)
STAGE = Family(
    SERVICE, "stage_seconds", "histogram", "how long each stage of a request took, see below", ("stage",)
)
REFUSALS = Family(
    SERVICE,
    "refusals",
    "counter",
    "requests that were refused, and URLs whose host was busy, by reason and name of the token",
    ("reason", "token"),
)
QUEUED = Family(
    SERVICE,
    "queued_urls",
    "counter",
    "URLs that were put into the live lane, by name of the token",
    ("token",),
)
DELIVERIES = Family(
    SERVICE,
    "webhook_events",
    "counter",
    "attempts to deliver an event to a webhook: `delivered` or `failed`; and events that were `given-up`",
    ("outcome",),
)
GAUGES = gauges(
    SERVICE,
    (
        "waiting",
        "what waits here: URLs to be fetched (`fetch`) or to be read (`read`), connections for `events`",
        "for",
    ),
    ("lane_messages", "messages of the live lane that wait or are worked on"),
)
FAMILIES = (ANSWERS, SECONDS, STAGE, REFUSALS, QUEUED, DELIVERIES, *GAUGES.values())
"""The metrics in the order of the documentation."""


async def service_samples(service: Service) -> list[MetricSample]:
    """Returns the metrics of a service. Raises the errors of UNAVAILABLE."""
    waiting = await service.lane.waiting()
    return [*_counted(service.tally), MetricSample(GAUGES["lane_messages"], waiting)]


def _counted(tally: ServiceTally) -> Iterator[MetricSample]:
    for labels, number in tally.answers.items():
        yield MetricSample(ANSWERS, number, labels)
    for operation, seconds in tally.seconds.items():
        yield MetricSample(SECONDS, seconds, (operation,))
    for stage in STAGES:
        yield MetricSample(STAGE, tally.stages[stage], (stage,))
    for labels, number in tally.refusals.items():
        yield MetricSample(REFUSALS, number, labels)
    for token, number in tally.queued.items():
        yield MetricSample(QUEUED, number, (token,))
    for outcome, number in tally.deliveries.items():
        yield MetricSample(DELIVERIES, number, (outcome,))
    for name, count in tally.waiting.items():
        yield MetricSample(GAUGES["waiting"], count(), (name,))
