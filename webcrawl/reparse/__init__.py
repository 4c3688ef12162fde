"""Reads archived pages again: what `scrapy reparse` runs on. No request is sent."""
