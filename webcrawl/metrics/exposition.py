"""Makes the text that Prometheus reads, with prometheus_client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from webcrawl.frontier import Crawl, Frontier
from webcrawl.metrics.crawl import crawl_samples
from webcrawl.metrics.families import Family, MetricSample
from webcrawl.metrics.observations import Histogram


class Exposition(NamedTuple):
    """Metrics in the requested format."""

    text: bytes
    content_type: str


class _Given(Collector):
    """Collects given metrics."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def exposition(
    samples: Mapping[str, Iterable[MetricSample]], more: Iterable[Metric] = (), accept: str = ""
) -> Exposition:
    """Returns the samples of each crawl, and metrics of other kinds, in the format of an `Accept` header.

    Samples of the crawl "" have no label `crawl`.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Given([*_metrics(samples), *more]))
    try:
        encode, content_type = choose_encoder(accept)
        return Exposition(encode(registry), content_type)
    except (TypeError, ValueError):  # an invalid version or escaping in `accept`
        encode, content_type = choose_encoder("")
        return Exposition(encode(registry), content_type)


async def crawl_exposition(frontier: Frontier, crawl: Crawl, accept: str = "") -> Exposition:
    """Returns the metrics of a whole crawl, also while its engine does not answer."""
    return await crawls_exposition(frontier, crawl, [frontier.keys.crawl], accept)


async def crawls_exposition(
    frontier: Frontier, crawl: Crawl, names: Sequence[str], accept: str = ""
) -> Exposition:
    """Returns the metrics of crawls with these names in the engine of `frontier` and `crawl`, one after another."""
    samples = {}
    for name in names:
        keys = replace(frontier.keys, crawl=name)
        samples[name] = await crawl_samples(replace(frontier, keys=keys), replace(crawl, keys=keys))
    return exposition(samples, accept=accept)


def _metrics(samples: Mapping[str, Iterable[MetricSample]]) -> Iterator[Metric]:
    by_family: dict[Family, list[tuple[str, MetricSample]]] = {}
    for crawl, of_crawl in samples.items():
        for sample in of_crawl:
            by_family.setdefault(sample.family, []).append((crawl, sample))
    for family, group in by_family.items():
        yield _histogram(family, group) if family.kind == "histogram" else _plain(family, group)


def _plain(family: Family, samples: list[tuple[str, MetricSample]]) -> Metric:
    metric = Metric(family.name.removesuffix("_total"), family.about, family.kind)
    for crawl, sample in samples:
        assert not isinstance(sample.value, Histogram)
        labels = dict(zip(family.labels, sample.labels, strict=True))
        metric.add_sample(family.name, {"crawl": crawl} | labels if crawl else labels, float(sample.value))
    return metric


def _histogram(family: Family, samples: list[tuple[str, MetricSample]]) -> Metric:
    names = ("crawl", *family.labels) if samples[0][0] else family.labels
    metric = HistogramMetricFamily(family.name, family.about, labels=names)
    for crawl, sample in samples:
        assert isinstance(sample.value, Histogram)
        bounds = [*(str(bound) for bound in sample.value.bounds), "+Inf"]
        buckets = [*zip(bounds, map(float, sample.value.buckets()), strict=True)]
        metric.add_metric((crawl, *sample.labels) if crawl else sample.labels, buckets, sample.value.total)
    return metric
