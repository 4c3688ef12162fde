from scrapy_redis.spiders import RedisSpider


class NewsSpider(RedisSpider):
    """Fed with `redis-cli lpush news:start_urls https://example.org/`; its items are in the list news:items."""

    name = "news"

    def parse(self, response):
        yield {"url": response.url, "title": response.css("title::text").get()}
        for link in response.css("a.article::attr(href)").getall():
            yield response.follow(link, callback=self.parse_article, cb_kwargs={"section": response.url})

    def parse_article(self, response, section):
        yield {"url": response.url, "section": section, "headline": response.css("h1::text").get()}
