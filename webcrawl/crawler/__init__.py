"""Everything that meets Scrapy: the session of one crawl, and what a person sees of it."""
