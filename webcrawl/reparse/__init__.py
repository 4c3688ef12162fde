"""Reads archived pages again for `scrapy reparse`, without sending a request."""
