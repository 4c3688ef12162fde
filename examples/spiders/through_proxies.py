"""Crawls through the proxies in the file proxies.txt, a different one for each request."""

from webcrawl import BroadSpider


class ThroughProxiesSpider(BroadSpider):
    """`scrapy crawl through_proxies -a seeds=https://example.org/`"""

    name = "through_proxies"
    custom_settings = {"PROXIES": "@proxies.txt", "PROXY_ROTATION": "request"}
