BOT_NAME = "news"
USER_AGENT = "news (+https://example.org/about-news; set USER_AGENT to your own)"
SPIDER_MODULES = ["news_spider"]

# was "scrapy_redis.scheduler.Scheduler"
SCHEDULER = "webcrawl.scheduler.FrontierScheduler"
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
SCHEDULER_PERSIST = True
ITEM_PIPELINES = {"scrapy_redis.pipelines.RedisPipeline": 300}
REDIS_URL = "redis://localhost:6379/0"
