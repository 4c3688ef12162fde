"""Converts, holds and settles requests between Scrapy and the frontier."""
