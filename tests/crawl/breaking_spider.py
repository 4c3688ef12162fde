"""A spider whose pages may break the process that parses them; see tests/unit/documents/html/breaking_outlines.py."""

from spiders.base import BroadSpider
from webcrawl.documents.html import outline_process

outline_process.CHILD = "tests.unit.documents.html.breaking_outlines"


class Breaking(BroadSpider):
    name = "breaking"
