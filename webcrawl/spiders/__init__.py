"""The spiders that `scrapy list` shows, one in each file."""
