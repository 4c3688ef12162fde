"""Pipelines for MIME types that the project does not support itself: one of binary data, one of text."""

from __future__ import annotations

from webcrawl.crawler.pages.mime_pipeline import MimePipeline
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts


class DjvuPipeline(MimePipeline):
    """Stores the kind of a DjVu file as its title."""

    types = frozenset({"image/vnd.djvu"})
    extensions = {".djvu": "image/vnd.djvu"}
    signatures = {rb"AT&TFORM....DJV[UM]": "image/vnd.djvu"}
    reader = f"{__name__}:read"


def read(document: Document) -> Facts:
    return Facts(title=document.start(16)[12:].decode())


class CalendarPipeline(MimePipeline):
    """Stores the first summary of a calendar as its title."""

    types = frozenset({"text/calendar"})
    extensions = {".ics": "text/calendar"}
    signatures = {rb"BEGIN:VCALENDAR\r?\n": "text/calendar"}
    reader = f"{__name__}:read_calendar"


def read_calendar(document: Document) -> Facts:
    return Facts(title=document.text.partition("SUMMARY:")[2].partition("\n")[0].strip())
