"""A pipeline whose reader is busy with a document until the file that it names exists."""

from __future__ import annotations

import time
from pathlib import Path

from webcrawl.crawler.pages.mime_pipeline import MimePipeline
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import Facts


class WaitingPipeline(MimePipeline):
    types = frozenset({"text/x-waiting"})
    extensions = {".waiting": "text/x-waiting"}
    reader = f"{__name__}:read"


def read(document: Document) -> Facts:
    file = Path(document.text.split("\n", 1)[0])
    while not file.exists():
        time.sleep(0.01)
    return Facts(title="read")
