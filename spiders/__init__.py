"""The spiders that `scrapy list` shows, one a file."""
