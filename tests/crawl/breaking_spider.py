"""A spider whose pages can crash the parsing process; see tests/unit/documents/html/breaking_outlines.py."""

from spiders.base import BroadSpider
from webcrawl.documents.html import outline_process

outline_process.CHILD = "tests.unit.documents.html.breaking_outlines"


class Breaking(BroadSpider):
    name = "breaking"
