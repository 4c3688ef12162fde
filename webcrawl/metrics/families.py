"""The families of metrics, with names, kinds, labels and meanings. docs/reference/metrics.md is written from them.

Names follow Prometheus' conventions. Names of one worker begin with `webcrawl_worker_`, names of a whole crawl with
`webcrawl_`. No label has a host or a URL, so the number of series does not grow with the crawl.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from webcrawl.metrics.observations import Histogram

CRAWL, WORKER = "webcrawl", "webcrawl_worker"
"""The scopes of a metric: a whole crawl, or one worker. The name of a metric begins with its scope."""


@dataclass(frozen=True, slots=True)
class Family:
    """The metrics with a name. `about`: a phrase in Markdown. `labels`: those after `crawl`, which all metrics have."""

    scope: str
    base: str
    kind: Literal["counter", "gauge", "histogram"]
    about: str
    labels: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in PromQL; the name of a histogram gets _bucket, _sum or _count."""
        return f"{self.scope}_{self.base}{'_total' * (self.kind == 'counter')}"


class MetricSample(NamedTuple):
    """A value, or the durations of a histogram, with the values of its family's labels."""

    family: Family
    value: float | Histogram
    labels: tuple[str, ...] = ()


def gauges(scope: str, *rows: tuple[str, str] | tuple[str, str, str]) -> dict[str, Family]:
    """Returns families of gauges by base, from rows (base, about) or (base, about, label)."""
    return {base: Family(scope, base, "gauge", about, tuple(labels)) for base, about, *labels in rows}


def samples(families: dict[str, Family], values: Iterable[tuple[str, float]]) -> list[MetricSample]:
    """Returns samples without labels, from pairs (base, value)."""
    return [MetricSample(families[base], value) for base, value in values]
