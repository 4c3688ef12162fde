"""Settings that name the parts of a crawl (`webcrawl.config.parts` has their values), and those of terminal and log."""

from __future__ import annotations

from webcrawl.config.kinds import Choice, Number, SecretWords, String, Whole
from webcrawl.config.setting import IN_PARTS, Setting, SettingGroup

PROJECT = SettingGroup(
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


TERMINAL = SettingGroup(
    "Watch a crawl",
    Setting(
        "PROGRESS",
        "auto",
        'What is shown on stderr: `"live"` a panel, `"plain"` lines, `"off"` nothing, `"auto"` a panel in '
        "a terminal and lines elsewhere. `summary.json` is always written.",
        values=Choice(("auto", "live", "plain", "off")),
        example="plain",
    ),
    Setting(
        "PROGRESS_INTERVAL",
        10,
        "Seconds between two plain lines.",
        values=Number(least=0.1),
        example=60,
    ),
    Setting(
        "METRICS_PORT",
        None,
        "The port at which a worker serves [metrics](metrics.md) for Prometheus; `None` is off. Of "
        "`scrapy workers`, the first worker has this port, the second the next one, and so on.",
        values=Whole(least=1, most=65535),
        example=9410,
    ),
    Setting(
        "METRICS_HOST",
        "127.0.0.1",
        "The address of this machine at which metrics are served. Everyone who reaches it may read them.",
        example="10.0.0.7",
    ),
    Setting(
        "TRACES",
        False,
        "Sends the stages of each page as a [trace](metrics.md#traces) of OpenTelemetry, whose own environment "
        "variables name the collector and the share of pages. Needs the extra [`traces`](../installing.md#extras).",
    ),
    Setting(
        "LOG_LEVEL",
        "WARNING",
        "`INFO` adds failed downloads, `DEBUG` every page, which takes up to a fifth more CPU; see "
        "[Benchmarks](benchmarks.md#the-options). The [file of a worker](dashboard.md#the-log) has "
        "lines of level `INFO` in any case.",
        example="INFO",
    ),
    Setting(
        "STATS_DUMP",
        False,
        "Logs Scrapy's counters of this worker at the end, at level `INFO`.",
    ),
    Setting(
        "DOWNLOADER_STATS",
        False,
        "Counts requests and responses by method, status and bytes among Scrapy's counters "
        "(`downloader/...`). `summary.json` has the crawl's own counters in any case.",
    ),
    Setting(
        "NOTIFY",
        [],
        "Where notifications about the crawl are sent, as [Apprise URLs](https://github.com/caronc/apprise/wiki): "
        "mail, chat, webhooks and many more; see [Alarms](../guide/alarms.md). They hold secrets, so logs and messages "
        "do not show them. Needs `pip install apprise jsonschema`.",
        values=SecretWords(),
        example=["mailtos://user:password@mail.example.com?to=team@example.com"],
    ),
    Setting(
        "WEBHOOKS",
        [],
        "Receivers to which [the service](../guide/webhooks.md) posts finished pages of the live lane: `URL SECRET` or "
        "`URL SECRET TAG`, or `@file` with one a line. They may have inner addresses. A secret is `whsec_` and 24 to "
        "64 bytes in base64. All services of an engine need the same.",
        values=SecretWords(),
        example=["@/etc/webcrawl/webhooks"],
    ),
    Setting(
        "DASHBOARD_URL",
        "",
        "The address of the dashboard, to which notifications link.",
        example="https://crawls.example.com",
    ),
)
