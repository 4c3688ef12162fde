"""The spiders that `scrapy list` shows, one per file."""
