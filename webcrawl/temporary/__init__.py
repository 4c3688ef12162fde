"""Temporary crawls, on which `scrapy shell`, `fetch`, `view`, `parse` and `check` run."""
