"""Checks the items of spiders against the schemas that they declare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from itemadapter import ItemAdapter
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.alarms.item_schema import ItemCheck, item_check
from webcrawl.crawler.errors import SchemaRefused
from webcrawl.errors import ConfigurationError


class ItemSchemasPipeline:
    """Drops items that do not match the spider's `item_schemas`; their pages become stuck.

    `item_schemas` is a dict from the name of an item class to a dataclass or a JSON Schema. Items of other classes
    pass. The pipeline is off for a spider without `item_schemas`.
    """

    def __init__(self, checks: Mapping[str, ItemCheck]) -> None:
        self._checks = checks

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        declared = getattr(crawler.spider or crawler.spidercls, "item_schemas", None)
        if not declared:
            raise NotConfigured
        if not isinstance(declared, Mapping):
            raise ConfigurationError(
                f"item_schemas must be a dict from item classes to schemas, not {declared!r}"
            )
        return cls({str(name): item_check(str(name), schema) for name, schema in declared.items()})

    def process_item(self, item: Any) -> Any:
        check = self._checks.get(type(item).__name__)
        if check is not None and (problems := check(ItemAdapter(item).asdict())):
            raise SchemaRefused("; ".join(problems))
        return item
