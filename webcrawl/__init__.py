"""A polite, durable web crawler on Scrapy, for one machine or a thousand."""

__version__ = "0.1.0"
