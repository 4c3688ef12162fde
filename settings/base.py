"""The project's settings: its name, and what it changes or adds. docs/settings.md explains every setting.

The add-on brings the rest. It adds its components to those that are named here; None leaves one of them out.
"""

from __future__ import annotations

BOT_NAME = "webcrawl"
SPIDER_MODULES = ["spiders"]
NEWSPIDER_MODULE = "spiders"
ADDONS = {"webcrawl.addon.WebcrawlAddon": 100}

# The name of your crawler and a way to reach you, before you crawl other people's sites.
# USER_AGENT = "examplebot/1.0 (+https://example.com/bot.html)"

DOWNLOADER_MIDDLEWARES: dict[str, int | None] = {}
ITEM_PIPELINES: dict[str, int | None] = {}
URL_FILTERS: dict[str, int | None] = {}
PRIORITIZERS: dict[str, int | None] = {}
DOWNLOAD_HANDLERS: dict[str, str | None] = {}
OBJECT_STORES: dict[str, str] = {}
