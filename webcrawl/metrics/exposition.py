"""The text that Prometheus reads, by prometheus_client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from webcrawl.frontier import Crawl, Frontier
from webcrawl.metrics.crawl import crawl_samples
from webcrawl.metrics.families import Family, Sample
from webcrawl.metrics.observations import BOUNDS, Histogram


class Exposition(NamedTuple):
    """Metrics in the format that was asked for."""

    text: bytes
    content_type: str


class _Given(Collector):
    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def exposition(
    crawl: str, samples: Iterable[Sample], more: Iterable[Metric] = (), accept: str = ""
) -> Exposition:
    """Returns the samples of a crawl, and metrics of other kinds, in the format of an `Accept` header."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given([*_metrics(crawl, samples), *more]))
    encode, content_type = choose_encoder(accept)
    return Exposition(encode(registry), content_type)


async def crawl_exposition(frontier: Frontier, crawl: Crawl, accept: str = "") -> Exposition:
    """Returns the metrics of a whole crawl, also while its engine does not answer."""
    return exposition(frontier.keys.crawl, await crawl_samples(frontier, crawl), accept=accept)


def _metrics(crawl: str, samples: Iterable[Sample]) -> Iterator[Metric]:
    by_family: dict[Family, list[Sample]] = {}
    for sample in samples:
        by_family.setdefault(sample.family, []).append(sample)
    for family, group in by_family.items():
        yield _histogram(crawl, family, group) if family.kind == "histogram" else _plain(crawl, family, group)


def _plain(crawl: str, family: Family, group: list[Sample]) -> Metric:
    metric = Metric(family.name.removesuffix("_total"), family.about, family.kind)
    for sample in group:
        assert not isinstance(sample.value, Histogram)
        labels = dict(zip(("crawl", *family.labels), (crawl, *sample.labels), strict=True))
        metric.add_sample(family.name, labels, float(sample.value))
    return metric


def _histogram(crawl: str, family: Family, group: list[Sample]) -> Metric:
    metric = HistogramMetricFamily(family.name, family.about, labels=("crawl", *family.labels))
    for sample in group:
        assert isinstance(sample.value, Histogram)
        bounds = [*(str(bound) for bound in BOUNDS), "+Inf"]
        buckets = [*zip(bounds, map(float, sample.value.buckets()), strict=True)]
        metric.add_metric((crawl, *sample.labels), buckets, sample.value.total)
    return metric
