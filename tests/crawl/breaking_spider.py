"""A spider whose pages can crash the parsing process; see tests/unit/documents/html/breaking_outlines.py."""

from webcrawl.documents.html import outline_process
from webcrawl.spiders.base import BroadSpider

outline_process.CHILD = "tests.unit.documents.html.breaking_outlines"


class Breaking(BroadSpider):
    name = "breaking"
