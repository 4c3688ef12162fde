"""A reparse runs without the components that fetch, report fetches or write to the engine."""

from __future__ import annotations

from scrapy.settings import Settings

from webcrawl.config import parts
from webcrawl.reparse.settings import reparse_settings


def test_of_the_extensions_of_the_project_only_the_log_stays() -> None:
    settings = Settings({name: dict(table) for name, table in parts.BASES.items()})
    changed = reparse_settings(settings)["EXTENSIONS"]
    assert isinstance(changed, dict)
    kept = {
        path for path in parts.EXTENSIONS if path.startswith("webcrawl.") and changed.get(path) is not None
    }
    assert kept == {"webcrawl.crawler.report.logs.LogFile"}
