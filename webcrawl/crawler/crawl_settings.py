"""The settings of a crawl as its spider and the add-ons complete them, and their check before anything starts.

Slow modules are imported where they are used, so that `scrapy pause -h` imports little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.errors import ConfigurationError

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings, Settings
    from scrapy.spiderloader import SpiderLoaderProtocol


def completed(settings: Settings, spider: type[Spider] | None = None) -> Settings:
    """Returns the settings of a crawl with this spider: the given settings, completed by spider and add-ons."""
    return crawler_of(settings, spider).settings


def crawler_of(settings: Settings, spider: type[Spider] | None) -> Crawler:
    """Returns a crawler that does not run, with its add-ons loaded."""
    from scrapy import Spider
    from scrapy.addons import AddonManager
    from scrapy.crawler import Crawler

    AddonManager.load_pre_crawler_settings(settings)
    crawler = Crawler(spider or Spider, settings)
    crawler.addons.load_settings(crawler.settings)
    return crawler


def crawl_settings(loader: SpiderLoaderProtocol, settings: Settings, name: str) -> BaseSettings:
    """Returns the settings of a crawl with this spider, checked before anything starts.

    Raises ConfigurationError if the spider does not exist, a setting is wrong, or a safeguard is missing.
    """
    from scrapy_redis.spiders import RedisMixin

    from webcrawl.crawler.named_components import check_components
    from webcrawl.crawler.safeguards import check_addon, check_safeguards
    from webcrawl.crawler.session import Session

    if name not in loader.list():
        raise ConfigurationError(f"there is no spider {name!r}: `scrapy list` shows the spiders")
    spider = loader.load(name)
    given = settings.copy()
    spider.update_settings(given)
    check_components(given)  # before the add-on uses them
    crawler = crawler_of(settings, spider)
    check_addon(crawler)
    check_safeguards(crawler.settings)
    settings = crawler.settings
    session = Session(settings, name)
    server = session.connection.server
    if issubclass(spider, RedisMixin) and server.is_embedded:
        raise ConfigurationError(f"spider {name!r} reads its start URLs from a server: set REDIS_URL")
    if issubclass(spider, RedisMixin) and not server.suits_scrapy_redis:
        raise ConfigurationError(
            f"spider {name!r} reads its start URLs by scrapy-redis, whose client connects to one server: REDIS_URL "
            "must name one, or `redis_cls` in REDIS_PARAMS a client for several"
        )
    return settings
