"""The components of a crawl: setting -> import path of each component, and its number in the order.

`webcrawl.addon.WebcrawlAddon` registers them. None turns off a component of Scrapy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DOWNLOADER_MIDDLEWARES = {
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": None,
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "scrapy.downloadermiddlewares.stats.DownloaderStats": None,
    "webcrawl.middlewares.retry.RetryMiddleware": 90,
    "webcrawl.middlewares.robots.RobotsMiddleware": 100,
    # before Scrapy's UserAgentMiddleware, which sets the header of requests without one
    "webcrawl.middlewares.user_agent.UserAgentMiddleware": 490,
    # a redirect is stored after it has been decoded and parsed
    "webcrawl.middlewares.redirect.RedirectMiddleware": 570,
    "webcrawl.middlewares.html_process.HtmlProcessMiddleware": 575,
    "webcrawl.middlewares.large_html.LargeHtmlMiddleware": 580,
    "webcrawl.middlewares.decoding.DecodingMiddleware": 590,
    "webcrawl.middlewares.cookies.CookiesMiddleware": 700,
    "webcrawl.middlewares.stats.StatsMiddleware": 850,
    "webcrawl.middlewares.revisit.RevisitMiddleware": 930,
    "webcrawl.middlewares.dns.DnsMiddleware": 940,
    "webcrawl.middlewares.copy_depth.CopyDepthMiddleware": 945,
    "webcrawl.middlewares.politeness.PolitenessMiddleware": 950,
}
SPIDER_MIDDLEWARES = {
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
    "webcrawl.middlewares.outlinks.OutlinksMiddleware": 950,
    "webcrawl.middlewares.frames.FramesMiddleware": 960,
}
ITEM_PIPELINES = {
    "webcrawl.pipelines.item_schemas.ItemSchemasPipeline": 50,
    "webcrawl.pipelines.checksum.ChecksumPipeline": 100,
    "webcrawl.pipelines.html.HtmlPipeline": 200,
    "webcrawl.pipelines.pdf.PdfPipeline": 210,
    "webcrawl.pipelines.feed.FeedPipeline": 211,
    "webcrawl.pipelines.sitemap.SitemapPipeline": 212,
    "webcrawl.pipelines.image.ImagePipeline": 213,
    "webcrawl.pipelines.media.MediaPipeline": 214,
    "webcrawl.pipelines.office.OfficePipeline": 215,
    "webcrawl.pipelines.json_data.JsonDataPipeline": 216,
    "webcrawl.pipelines.text.TextPipeline": 217,
    "webcrawl.pipelines.archive.ArchivePipeline": 218,
    "webcrawl.pipelines.language.LanguagePipeline": 280,
    "webcrawl.pipelines.counts.CountsPipeline": 290,
    "webcrawl.pipelines.soft_404.Soft404Pipeline": 295,
    "webcrawl.pipelines.extraction.ExtractionPipeline": 296,
    "webcrawl.pipelines.near_duplicates.NearDuplicatesPipeline": 300,
    "webcrawl.pipelines.pattern_records.PatternRecordsPipeline": 310,
    "webcrawl.pipelines.dust.DustPipeline": 320,
    "webcrawl.pipelines.warc.WarcPipeline": 800,
    "webcrawl.pipelines.texts.TextsPipeline": 810,
    "webcrawl.pipelines.links.LinksPipeline": 850,
    "webcrawl.pipelines.metadata.MetadataPipeline": 900,
    "webcrawl.pipelines.listeners.ListenersPipeline": 950,
    "webcrawl.pipelines.stuck.StuckPipeline": 960,
}
EXTENSIONS = {
    "webcrawl.crawler.report.worker_metrics.MetricsPort": 0,
    "webcrawl.crawler.report.trace_export.TraceExport": 0,
    "webcrawl.crawler.report.logs.LogFile": 0,
    "webcrawl.crawler.report.progress.Progress": 0,
    "webcrawl.crawler.report.summary.Summary": 0,
    "webcrawl.crawler.report.alarms.Alarms": 0,
    "webcrawl.crawler.checkpoints.CrawlCheckpoints": 0,
    # settings switch these off too; None saves their imports
    "scrapy.extensions.telnet.TelnetConsole": None,
    "scrapy.extensions.remote_control.RemoteControl": None,
    # the frontier alone sets delays
    "scrapy.extensions.throttle.AutoThrottle": None,
    "scrapy.extensions.logstats.LogStats": None,
}
FEED_EXPORTERS = {
    "csv": "webcrawl.crawler.feeds.PageCsvExporter",
    "pages": "webcrawl.crawler.feeds.PageTextExporter",
}
FEED_STORAGES = dict.fromkeys(("", "file"), "webcrawl.crawler.feeds.FileFeedStorage")
DOWNLOAD_HANDLERS = {
    "http": "webcrawl.crawler.download.http.HTTPDownloadHandler",
    "https": "webcrawl.crawler.download.http.HTTPDownloadHandler",
    "file": None,
    "data": None,
    "ftp": "webcrawl.crawler.download.ftp.FTPDownloadHandler",
    "s3": None,
}
URL_FILTERS = {
    "webcrawl.urls.filters.SchemeFilter": 100,
    "webcrawl.urls.filters.LengthFilter": 200,
    "webcrawl.urls.filters.QueryFilter": 300,
    "webcrawl.urls.filters.RepeatedSegmentsFilter": 400,
    "webcrawl.urls.filters.ExtensionFilter": 500,
    "webcrawl.urls.filters.PatternFilter": 600,
    "webcrawl.urls.domains.DomainFilter": 700,
}
PRIORITIZERS = {
    "webcrawl.policies.terms.LinkDepth": 100,
    "webcrawl.policies.terms.PathDepth": 200,
    "webcrawl.policies.terms.Length": 300,
    "webcrawl.policies.terms.Parameters": 400,
    "webcrawl.policies.terms.DateInUrl": 500,
    "webcrawl.policies.terms.AnchorWords": 600,
    "webcrawl.policies.terms.Freshness": 700,
    "webcrawl.policies.terms.NewLink": 750,
    "webcrawl.policies.terms.Importance": 800,
    "webcrawl.policies.terms.PatternRecord": 900,
    "webcrawl.policies.mined_terms.LearnedValue": 1000,
    "webcrawl.policies.mined_terms.Uniqueness": 1100,
}

BASES: Mapping[str, Mapping[str, Any]] = {
    "DOWNLOADER_MIDDLEWARES": DOWNLOADER_MIDDLEWARES,
    "SPIDER_MIDDLEWARES": SPIDER_MIDDLEWARES,
    "ITEM_PIPELINES": ITEM_PIPELINES,
    "EXTENSIONS": EXTENSIONS,
    "FEED_EXPORTERS": FEED_EXPORTERS,
    "FEED_STORAGES": FEED_STORAGES,
}
"""Name of a setting of Scrapy -> the components that extend the setting of this name and `_BASE`."""
MERGED: Mapping[str, Mapping[str, Any]] = {
    "DOWNLOAD_HANDLERS": DOWNLOAD_HANDLERS,
    "URL_FILTERS": URL_FILTERS,
    "PRIORITIZERS": PRIORITIZERS,
}
"""Entries that are added to the setting itself, unless it has them.

URL_FILTERS and PRIORITIZERS have no `_BASE`, and Scrapy writes handlers of its own into DOWNLOAD_HANDLERS_BASE after
the add-ons.
"""
VALUES: Mapping[str, Any] = {
    # a fetch takes 1.2 ms on asyncio alone, and 1.7 ms on Twisted's reactor
    "TWISTED_REACTOR_ENABLED": False,
    "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
    "SCHEDULER": "webcrawl.scheduler.FrontierScheduler",
    "DOWNLOADER": "webcrawl.crawler.download.downloader.Downloader",
    "ITEM_PROCESSOR": "webcrawl.crawler.pages.processor.ItemProcessor",
    "LOG_FORMATTER": "webcrawl.crawler.report.logs.QuietLogFormatter",
    # the check reads the source code of a callback again for each response
    "WARN_ON_GENERATOR_RETURN_VALUE": False,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
}
"""Settings with a single value that are not declared; docs/reference/settings.md lists them under Scrapy's settings."""
SPIDERS = "webcrawl.spiders"
