"""`scrapy crawl broad`: follows every link within the scope and stores every page."""

from spiders.base import BroadSpider


class Broad(BroadSpider):
    """BroadSpider under a name."""

    name = "broad"
