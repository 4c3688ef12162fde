"""The pages of the dashboard, one per module."""

from webcrawl.web.pages import (
    archived,
    crawl,
    crawls,
    dead_letters,
    downloads,
    duplicates,
    hosts,
    job_records,
    log,
    search,
    start,
    stored,
)

PAGES = (
    crawls.page,
    job_records.page,
    start.page,
    crawl.page,
    stored.page,
    search.page,
    hosts.page,
    archived.page,
    dead_letters.page,
    duplicates.page,
    log.page,
    downloads.page,
)
"""The pages in the order of the navigation."""
