"""Commands of `scrapy` that the project adds: crawl (checked), workers, frontier, page, checkurl."""
