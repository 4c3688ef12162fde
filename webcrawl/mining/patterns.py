"""Patterns of URLs, and the links between patterns, with the measures of link-uniq.

urls       url, place: host and pattern as one text, such as "https://example.org/thread/#?page"
patterns   place, host, pattern, known (URLs), pages (fetched), value and deviation (mean and standard deviation of
           their values)
pairs      from_place, to_place, and the measures; links in boilerplate blocks are left out

The measures count distinct pairs of a page of pattern A and a URL of pattern B to which it links:

    uniqueness     distinct URLs of B / pairs
    coverage       distinct URLs of B / known URLs of B
    contribution   distinct URLs of B / distinct pages of A
    validity       distinct pages of A / known URLs of A
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webcrawl.errors import InvalidURL
from webcrawl.mining.libraries import pyarrow
from webcrawl.mining.workspace import MiningTables
from webcrawl.policies.url_patterns import url_pattern
from webcrawl.urls.canonical import split

MOST_WEIGHTS = 100_000
"""The most patterns with weights for workers: the patterns with the most URLs."""
LEAST_PAGES = 16
LEAST_VALIDITY = 0.125
"""A pattern is judged by its links once it has this many pages, and this share of its known URLs is fetched."""
MOST_LEVELS = 2.0
_USUAL_BITS = 2
_BITS_A_LEVEL = 4
"""A uniqueness of at least 2**-_USUAL_BITS costs no level; each further factor of 2**-_BITS_A_LEVEL costs a level."""

_URLS = "SELECT from_url AS url FROM links UNION SELECT to_url FROM links UNION SELECT url FROM pages"
_COLUMNS = ("url", "host", "pattern", "place")
_PATTERNS = """
SELECT place, any_value(host) AS host, any_value(pattern) AS pattern, count(*) AS known,
       count(pages.url) AS pages, avg(value) AS value, coalesce(stddev_samp(value), 0) AS deviation
FROM urls LEFT JOIN pages USING (url) GROUP BY place
"""
_PAIRS = """
WITH counted AS (
    SELECT from_place, to_place, count(*) AS pairs,
           count(DISTINCT from_url) AS from_pages, count(DISTINCT to_url) AS to_urls
    FROM content WHERE from_url <> to_url GROUP BY from_place, to_place
)
SELECT from_place, to_place, pairs, from_pages, to_urls,
       to_urls / pairs AS uniqueness, to_urls / b.known AS coverage,
       to_urls / from_pages AS contribution, from_pages / a.known AS validity
FROM counted JOIN patterns a ON a.place = from_place JOIN patterns b ON b.place = to_place
"""
_WEIGHTS = f"""
WITH fetched AS (
    SELECT host FROM patterns WHERE pages > 0 GROUP BY host
), judged AS (
    SELECT from_place AS place, sum(to_urls) / sum(pairs) AS uniqueness
    FROM pairs JOIN patterns target ON target.place = to_place SEMI JOIN fetched ON fetched.host = target.host
    WHERE from_pages >= {LEAST_PAGES} AND validity >= {LEAST_VALIDITY} GROUP BY from_place
)
SELECT *, (log2(uniqueness) + {_USUAL_BITS}) / {_BITS_A_LEVEL} AS levels,
       round(16 * greatest(-{MOST_LEVELS}, least(0, levels))) / 16 AS weight
FROM judged
"""
_WORSE = f"""
SELECT place, weight FROM weights JOIN patterns USING (place) WHERE weight < 0
ORDER BY known DESC, place LIMIT {MOST_WEIGHTS}
"""


def add_urls(workspace: MiningTables) -> None:
    """Adds the tables `urls` and `patterns`."""
    workspace.mapped("urls", _URLS, placed, _COLUMNS)
    workspace.create("patterns", _PATTERNS)


def placed(urls: Sequence[str]) -> Any:
    """Returns a record batch of `urls` for some URLs; leaves out invalid ones, which a database may have."""
    rows: list[tuple[str, str, str, str]] = []
    for url in urls:
        try:
            host, path = split(url)
        except InvalidURL:
            continue
        pattern = url_pattern(path)
        rows.append((url, host, pattern, host + pattern))
    arrow = pyarrow()
    columns = zip(*rows, strict=True) if rows else [()] * len(_COLUMNS)
    return arrow.record_batch([arrow.array(column, arrow.string()) for column in columns], names=_COLUMNS)


def measure(workspace: MiningTables) -> None:
    """Adds the tables `pairs` and `weights`; needs `content` of `webcrawl.mining.pages`."""
    workspace.create("pairs", _PAIRS)
    workspace.create("weights", _WEIGHTS)


def weights(workspace: MiningTables) -> Mapping[str, float]:
    """Returns by host and pattern the levels by which its URLs are worse, for patterns with worse URLs."""
    batches = workspace.rows(_WORSE)
    return {pattern: weight for batch in batches for pattern, weight in batch}
