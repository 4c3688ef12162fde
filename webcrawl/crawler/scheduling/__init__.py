"""What happens to a request between Scrapy and the frontier."""
