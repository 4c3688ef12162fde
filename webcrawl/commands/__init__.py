"""The commands that the project adds to `scrapy`, one per module."""
