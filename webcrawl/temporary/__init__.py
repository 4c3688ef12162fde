"""Temporary crawls: what `scrapy shell`, `fetch`, `view`, `parse` and `check` run on."""
