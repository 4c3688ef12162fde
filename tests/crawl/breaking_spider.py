"""A spider whose pages may break the process that parses them; see tests/mime/breaking_outlines.py."""

from spiders.base import BroadSpider
from webcrawl.documents.html import outline_process

outline_process.CHILD = "tests.mime.breaking_outlines"


class Breaking(BroadSpider):
    name = "breaking"
