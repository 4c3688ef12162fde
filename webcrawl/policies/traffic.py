"""What a fetch is for: five classes."""

from __future__ import annotations

COVERAGE_GET, FRESHNESS_GET = "coverage-get", "freshness-get"
COVERAGE_CHK, FRESHNESS_CHK, UPDATE_CHK = "coverage-chk", "freshness-chk", "update-chk"

CLASSES = (COVERAGE_GET, FRESHNESS_GET, COVERAGE_CHK, FRESHNESS_CHK, UPDATE_CHK)
"""A queue entry has the number of its class in this tuple, which is a part of the frontier's format.

coverage-get     a page that is new to the crawl
freshness-get    a new page whose link is new on a page that was fetched again, such as a hub, feed or sitemap
coverage-chk     a page that was gone, which may exist again
freshness-chk    a hub, feed or sitemap, which may name new pages
update-chk       any other known page, which may have changed
"""

_LIST_TYPES = frozenset(
    {
        *("application/rss+xml", "application/atom+xml", "application/feed+json"),
        *("application/xml", "text/xml"),
    }
)
"""The types of feeds and sitemaps."""


def class_of_visit(mime_type: str | None, *, is_alive: bool, is_hub: bool = False) -> str:
    """Returns the class of the next fetch of a known page. `is_hub`: it names many new pages."""
    if not is_alive:
        return COVERAGE_CHK
    return FRESHNESS_CHK if is_hub or mime_type in _LIST_TYPES else UPDATE_CHK


def class_of_link(source_class: str | None) -> str:
    """Returns the class of the fetch of a new page that was named by a page whose fetch had this class."""
    return FRESHNESS_GET if source_class in (FRESHNESS_CHK, UPDATE_CHK) else COVERAGE_GET
