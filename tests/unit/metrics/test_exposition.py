"""Totals become counters with a bounded number of label values, and samples the text that Prometheus reads."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

from hypothesis import given, strategies as st

from tests.scraped import Scraped, check_by_promtool
from webcrawl.config.memory import child_memory
from webcrawl.crawler.report import worker_metrics
from webcrawl.metrics.crawl import GAUGES
from webcrawl.metrics.exposition import exposition
from webcrawl.metrics.families import CRAWL, WORKER, Family, MetricSample
from webcrawl.metrics.observations import Histogram
from webcrawl.metrics.totals import CAUSES, DEAD, FAMILIES, LIVE_MS, MOST_VALUES, live_bucket, samples_of
from webcrawl.service.service_metrics import FAMILIES as OF_SERVICE

EVERY = [
    *GAUGES.values(),
    *FAMILIES[CRAWL],
    *worker_metrics.GAUGES.values(),
    *FAMILIES[WORKER],
    worker_metrics.STAGE,
    worker_metrics.QUEUED,
    worker_metrics.STORE,
    worker_metrics.ROBOTS,
]


def counters(totals: dict[str, int]) -> Scraped:
    return Scraped(exposition({"docs": samples_of(CRAWL, totals)}).text.decode())


def one_of(family: Family) -> MetricSample:
    value = Histogram() if family.kind == "histogram" else 1.0
    return MetricSample(family, value, tuple(f"any {label}" for label in family.labels))


def test_names_and_kinds_follow_the_conventions() -> None:
    assert len({family.name for family in EVERY}) == len(EVERY)
    text = exposition({"docs": map(one_of, EVERY), "news": map(one_of, EVERY)}).text.decode()
    assert Scraped(text).crawls == {"docs", "news"}
    check_by_promtool(text)
    # a service has no crawl
    text = exposition({"": map(one_of, OF_SERVICE)}).text.decode()
    assert "crawl=" not in text and len(Scraped(text).families) == len(OF_SERVICE)
    check_by_promtool(text)


def test_answers_of_the_live_lane_become_a_histogram() -> None:
    waits = [0.01, 0.1, 0.3, 4.0, 1000.0]
    found = counters(Counter(map(live_bucket, waits)) | {LIVE_MS: round(1000 * sum(waits))})
    name = "webcrawl_live_answer_seconds"
    assert [found[f"{name}_bucket", bound] for bound in ("0.1", "0.5", "5.0", "300.0", "+Inf")] == [
        2,
        3,
        4,
        4,
        5,
    ]
    assert (found[f"{name}_count"], found[f"{name}_sum"]) == (5, 1004.41)
    assert f"{name}_count" not in {key[0] for key in counters({"pages": 1}).values}


def test_totals_become_counters() -> None:
    found = counters(
        {
            "pages": 3,
            "status.200": 4,
            "status.799": 1,
            "status.999": 2,
            "status_bytes.200": 5000,
            "status_bytes.999": 10,
            "type_pages.text/html": 3,
            "type_bytes.text/html": 5000,
            "exact_duplicates": 1,
            f"{DEAD}dns": 7,
            f"{DEAD}a new cause": 1,
            "active_ms": 1500,
            # not for Prometheus: they name URLs
            "start.http://a.test/ 404": 1,
            "feed.file:///items.jl": 5,
            "lost.parse": 1,
        }
    )
    assert found["webcrawl_pages_total"] == 3
    # a server may send any number as a status
    assert (found["webcrawl_responses_total", "200"], found["webcrawl_responses_total", "other"]) == (4, 3)
    received = {
        key[1]: number for key, number in found.values.items() if key[0] == "webcrawl_received_bytes_total"
    }
    assert received == {"200": 5000, "other": 10}
    assert found["webcrawl_document_bytes_total", "text/html"] == 5000
    assert (found["webcrawl_duplicates_total", "exact"], found["webcrawl_duplicates_total", "near"]) == (1, 0)
    assert (found["webcrawl_dead_letters_total", "dns"], found["webcrawl_dead_letters_total", "other"]) == (
        7,
        1,
    )
    assert found["webcrawl_active_seconds_total"] == 1.5
    assert not [name for name in found.labels if "a.test" in name or "items" in name or name == "parse"]


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.integers(0, 10**12), max_size=300))
def test_any_number_of_classes_gives_few_series_and_loses_no_item(items: dict[str, int]) -> None:
    found = counters({f"items.{name}": number for name, number in items.items()})
    numbers = [number for key, number in found.values.items() if key[0] == "webcrawl_items_total"]
    assert len(numbers) <= MOST_VALUES + 1
    assert sum(numbers) == sum(items.values())


WORDS = st.sampled_from(
    [
        "application/openmetrics-text",
        "text/plain",
        "version=1.0.0",
        "version=x",
        "escaping=none",
        "q=0.5",
        "=",
        "",
    ]
)


@given(st.lists(st.lists(WORDS | st.text(max_size=5)).map(";".join)).map(",".join))
def test_any_header_gets_an_answer(accept: str) -> None:
    assert b"webcrawl_pages_total" in exposition({"docs": samples_of(CRAWL, {"pages": 1})}, (), accept).text


def test_each_cause_is_a_word_of_its_own() -> None:
    found = counters({f"{DEAD}{cause}": 1 for cause in CAUSES})
    assert {key[1] for key in found.values if key[0] == "webcrawl_dead_letters_total"} == {*CAUSES}


def test_the_children_of_a_process_are_counted_with_theirs() -> None:
    before = child_memory()
    assert before is not None
    program = f"keep = b'x' * {30 * 2**20}; import sys; print(flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", program]
    nested = f"import subprocess; subprocess.run({words!r})"
    with subprocess.Popen(
        [sys.executable, "-c", nested], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.readline()
        now = child_memory()
        process.stdin.close()
    assert now is not None and now - before > 30 * 2**20
