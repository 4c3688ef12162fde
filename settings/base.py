"""The project's settings: its name, and the settings that it changes or adds.

docs/reference/settings.md explains each setting.
The add-on sets all others. It adds its components to the components named here; None leaves a component out.
"""

from __future__ import annotations

BOT_NAME = "webcrawl"
SPIDER_MODULES = ["spiders"]
NEWSPIDER_MODULE = "spiders"
ADDONS = {"webcrawl.addon.WebcrawlAddon": 100}

# Set the name of your crawler and a way to reach you before you crawl other people's sites.
# USER_AGENT = "examplebot/1.0 (+https://example.com/bot.html)"

DOWNLOADER_MIDDLEWARES: dict[str, int | None] = {}
ITEM_PIPELINES: dict[str, int | None] = {}
URL_FILTERS: dict[str, int | None] = {}
PRIORITIZERS: dict[str, int | None] = {}
DOWNLOAD_HANDLERS: dict[str, str | None] = {}
OBJECT_STORES: dict[str, str] = {}
