"""Crawls that are iterations of jobs: their CRAWL_ID is the name of the job and the time at which they were due."""

from __future__ import annotations

import re

_OF_A_JOB = re.compile(r"(.+)-\d{8}T\d{6}Z")
"""As webcrawl.jobs.store.crawl_id makes it."""


def job_of(crawl: str) -> str:
    """Returns the job of whose iterations this crawl is one; "" if it is none."""
    match = _OF_A_JOB.fullmatch(crawl)
    return match[1] if match else ""
