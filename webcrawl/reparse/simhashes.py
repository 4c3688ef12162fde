"""Computes the SimHashes of texts. Near-duplicates are marked later, when all texts are known."""

from __future__ import annotations

from typing import Any

from webcrawl.crawler.components import Reads
from webcrawl.crawler.session import SessionComponent
from webcrawl.documents.page import Page
from webcrawl.pipelines.near_duplicates import simhash_of
from webcrawl.reparse.scheduler import scheduler_of


class SimhashesPipeline(SessionComponent):
    """Replaces `NearDuplicatesPipeline`: computes the SimHashes of the same pages, and keeps the marks of the rows."""

    reads = Reads.SIMHASH

    def process_item(self, item: Any) -> Any:
        if not isinstance(item, Page) or item.status != 200 or item.duplicate_kind == "exact":
            return item
        if item.truncated not in (None, "length"):  # incomplete: another fetch may get more
            return item
        item.simhash = item.reading.text_hash if item.reading.text_hash is not None else simhash_of(item)
        archived = scheduler_of(self._crawler).page(item.url)
        if archived is not None and archived.row["duplicate_kind"] == "near":
            item.duplicate_of, item.duplicate_kind = archived.row["duplicate_of"], "near"
        return item
