"""Exports pages in Scrapy's feeds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from scrapy.exporters import CsvItemExporter


class PageCsvExporter(CsvItemExporter):
    """Scrapy's exporter, with dicts and lists as JSON; Scrapy joins lists with commas, which URLs may contain."""

    def serialize_field(self, field: Mapping[str, Any], name: str, value: Any) -> Any:
        written = super().serialize_field(field, name, value)
        if field.get("structure") and written is not None:
            return json.dumps(written, ensure_ascii=False)
        return written
