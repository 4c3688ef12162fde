"""Settings that name the parts of a crawl; `webcrawl.config.parts` has most of their values."""

from __future__ import annotations

from webcrawl.config.kinds import String, Whole
from webcrawl.config.setting import IN_PARTS, Setting, SettingGroup

GROUP = SettingGroup(
    "Compose the project",
    Setting(
        "ITEM_PIPELINES",
        IN_PARTS,
        "The pipelines of a page, in the order of their numbers: MIME-type pipelines from 200 to 300, the "
        "metadata pipeline after all that need the body. See [Add a MIME-type "
        "pipeline](../howto/add-a-mime-type-pipeline.md).",
        example={"our_pipelines.recipes.RecipePipeline": 219},
    ),
    Setting(
        "DOWNLOADER_MIDDLEWARES",
        IN_PARTS,
        "The downloader middlewares. Politeness comes last, so that a request takes its host's turn just "
        "before it is sent; redirects come before decoding, so that a stored redirect is decoded.",
        example={"our_middlewares.LoginMiddleware": 500},
    ),
    Setting(
        "SPIDER_MIDDLEWARES",
        IN_PARTS,
        "The spider middlewares. `OutlinksMiddleware` adds the links that a spider yields to the frontier.",
        example={"our_middlewares.LinkTextMiddleware": 900},
    ),
    Setting(
        "EXTENSIONS",
        IN_PARTS,
        "The extensions: progress, summary and alarms. Scrapy's telnet console, remote control, AutoThrottle and "
        "log stats are off.",
        example={"scrapy.extensions.memusage.MemoryUsage": 0},
    ),
    Setting(
        "FEED_EXPORTERS",
        IN_PARTS,
        "Scrapy's exporters, with one for CSV that writes nested fields of a page as JSON; see "
        "[Exports](../guide/exports.md#scrapys-feeds).",
        example={"yaml": "our_exporters.YamlItemExporter"},
    ),
    Setting(
        "SCHEDULER",
        IN_PARTS,
        "The scheduler, which takes requests from the frontier. The project's middlewares and pipelines need "
        "it, but it works without them; see [Use with scrapy-redis](../guide/use-with-scrapy-redis.md).",
        values=String(),
        example="webcrawl.scheduler.FrontierScheduler",
    ),
    Setting(
        "CONCURRENT_ITEMS",
        4,
        "Items of one response that are in the pipelines at the same time. A page is one item; raise it "
        "for spiders that yield many items from a response.",
        values=Whole(least=1),
        example=20,
    ),
    Setting(
        "SCRAPER_SLOT_MAX_ACTIVE_SIZE",
        2_000_000,
        "Bytes of downloaded bodies that may wait for the spider and the pipelines; while there are more, "
        "nothing is fetched. A parsed page takes 15 to 30 times its size. Documents in a reader process, or "
        "waiting for one, do not count: see [What a host may cost](../guide/fairness.md).",
        values=Whole(least=1),
        example=1_000_000,
    ),
)
