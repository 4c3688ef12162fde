"""The Scrapy side: the session of a crawl, its components, and its progress and summary."""
