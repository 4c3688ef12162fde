"""The pages of the dashboard, one per module."""

from webcrawl.web.pages import (
    archived,
    crawl,
    crawls,
    dead_letters,
    duplicates,
    hosts,
    job_records,
    log,
    start,
    stored,
)

PAGES = (
    crawls.page,
    job_records.page,
    start.page,
    crawl.page,
    stored.page,
    hosts.page,
    archived.page,
    dead_letters.page,
    duplicates.page,
    log.page,
)
"""The pages in the order of the navigation."""
