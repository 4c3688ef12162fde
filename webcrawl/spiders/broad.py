"""`scrapy crawl broad`: follows every link within the scope and stores every page."""

from webcrawl.spiders.base import BroadSpider


class Broad(BroadSpider):
    """BroadSpider with the name `broad`."""

    name = "broad"
