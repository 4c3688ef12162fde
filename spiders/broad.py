"""`scrapy crawl broad`: follows every link within the scope and stores every page."""

from spiders.base import BroadSpider


class Broad(BroadSpider):
    """All that BroadSpider does by itself."""

    name = "broad"
