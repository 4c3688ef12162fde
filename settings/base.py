"""Every setting of the project, grouped. docs/settings.md has a heading for each."""

BOT_NAME = "webcrawl"
SPIDER_MODULES = ["spiders"]
NEWSPIDER_MODULE = "spiders"
COMMANDS_MODULE = "webcrawl.commands"

# --- Who we are ------------------------------------------------------------------------------------------------------
# Put a page about your crawler and a way to reach you here: site owners look for it in their logs.
USER_AGENT = "webcrawl/0.1 (+https://example.org/about-our-crawler; set USER_AGENT to your own)"
ROBOTSTXT_OBEY = True
ROBOTSTXT_USER_AGENT = None
ROBOTS_META_OBEY = True

# --- Where things go -------------------------------------------------------------------------------------------------
DATA_DIR = "data"
STORE_URI: str | None = None
OBJECT_STORES = {
    "file": "webcrawl.stores.objects.folder.FolderStore",
    "s3": "webcrawl.stores.objects.s3.S3Store",
}
METADATA_URI: str | None = None
METADATA_HISTORY = 30
WARC_ROLL_BYTES = 1_000_000_000
WARC_ROLL_SECONDS = 3600
STORE_SPOOL_MAX_BYTES = 100_000_000_000
STORE_MIN_FREE_BYTES = 100_000_000

# --- The crawl -------------------------------------------------------------------------------------------------------
CRAWL_ID = None
CRAWL_MAX_PAGES = 0
CRAWL_MAX_BYTES = 0
CRAWL_WEIGHT = 1.0
HOST_MAX_PAGES = 0
HOST_MAX_BYTES = 0
DEPTH_LIMIT = 0
REVISIT = False
CONCURRENT_REQUESTS = 64
CONCURRENT_ITEMS = 4
SCRAPER_SLOT_MAX_ACTIVE_SIZE = 2_000_000

# --- The engine and the frontier -------------------------------------------------------------------------------------
REDIS_URL: str | None = None
REDIS_PARAMS: dict[str, object] = {}
SCHEDULER = "webcrawl.scheduler.FrontierScheduler"
SCHEDULER_PERSIST = True
SCHEDULER_FLUSH_ON_START = False
FRONTIER_SHARDS = 16
FRONTIER_LEASE_SECONDS = 60
FRONTIER_LEASE_URLS = 20
FRONTIER_LEASE_HOSTS = 256
FRONTIER_MAX_ATTEMPTS = 5
FRONTIER_RETRY_DELAY = 30
FRONTIER_LOW_LEVEL_SHARE = 0.1
FRONTIER_ORDER = "breadth-first"
FRONTIER_HOT_URLS = 1000
FRONTIER_SPILL_URI: str | None = None
FRONTIER_RECENT_CACHE = 2**18
SEEN_SET = "exact"

# --- Politeness ------------------------------------------------------------------------------------------------------
DOWNLOAD_DELAY = 1.0
CONCURRENT_REQUESTS_PER_DOMAIN = 1
POLITENESS_MAX_CRAWL_DELAY = 60
POLITENESS_LATENCY_FACTOR = 0
POLITENESS_BACKOFF = 60
POLITENESS_MAX_BACKOFF = 86_400
POLITENESS_JITTER = 0.1
POLITENESS_FORGIVE_AFTER = 1_800
POLITENESS_CONNECT_BACKOFF = 10
POLITENESS_MAX_FAILURES = 4

# --- Names and addresses ---------------------------------------------------------------------------------------------
DNS_SERVERS: list[str] = []
DNS_TIMEOUT = 10
DNSCACHE_SIZE = 20_000
ALLOWED_NETWORKS: list[str] = []

# --- URLs ------------------------------------------------------------------------------------------------------------
URL_FILTERS = {
    "webcrawl.urls.filters.SchemeFilter": 100,
    "webcrawl.urls.filters.LengthFilter": 200,
    "webcrawl.urls.filters.QueryFilter": 300,
    "webcrawl.urls.filters.RepeatedSegmentsFilter": 400,
    "webcrawl.urls.filters.ExtensionFilter": 500,
    "webcrawl.urls.filters.PatternFilter": 600,
}
URLLENGTH_LIMIT = 2083
URL_ALLOW: list[str] = []
URL_DENY: list[str] = []
URL_DENY_EXTENSIONS: list[str] = []
URL_MAX_PARAMETERS = 20
URL_MAX_REPEATED_SEGMENTS = 3
URL_IGNORED_PARAMETERS = None

# --- Fetching --------------------------------------------------------------------------------------------------------
DOWNLOADER = "webcrawl.crawler.download.downloader.Downloader"
DOWNLOAD_HANDLERS = {
    "http": "webcrawl.crawler.download.http.HTTPDownloadHandler",
    "https": "webcrawl.crawler.download.http.HTTPDownloadHandler",
    "file": None,
    "data": None,
    "ftp": "webcrawl.crawler.download.ftp.FTPDownloadHandler",
    "s3": None,
}
RENDER: list[str] = []
RENDER_BROWSER: str | None = None
FTP_USER = "anonymous"
FTP_PASSWORD = "guest"
DOWNLOAD_TIMEOUT = 60
DOWNLOAD_MAXSIZE = 1024 * 1024 * 1024
DOWNLOAD_WARNSIZE = 0
DOCUMENT_MAXSIZE = {
    "text/html": 8 * 1024 * 1024,
    "application/xhtml+xml": 8 * 1024 * 1024,
    "*/*": 32 * 1024 * 1024,
}
DOCUMENT_MEMORY = 65_536
DOWNLOAD_VERIFY_CERTIFICATES = True
DOWNLOAD_FAIL_ON_DATALOSS = False
COOKIES_ENABLED = False
RETRY_ENABLED = False
METAREFRESH_ENABLED = False
DEFAULT_REQUEST_HEADERS = {
    "Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    # what every reader of WARC files can decode
    "Accept-Encoding": "gzip, deflate",
}
DOWNLOADER_MIDDLEWARES = {
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "scrapy.downloadermiddlewares.stats.DownloaderStats": None,
    "middlewares.retry.RetryMiddleware": 90,
    "middlewares.robots.RobotsMiddleware": 100,
    # what it stores of a redirect has to be decoded, and parsed in time
    "middlewares.redirect.RedirectMiddleware": 570,
    "middlewares.outline.OutlineMiddleware": 575,
    "middlewares.large_html.LargeHTMLMiddleware": 580,
    "middlewares.decoding.DecodingMiddleware": 590,
    "middlewares.stats.DownloaderStatsMiddleware": 850,
    "middlewares.revisit.RevisitMiddleware": 930,
    "middlewares.dns.DnsMiddleware": 940,
    "middlewares.politeness.PolitenessMiddleware": 950,
}
SPIDER_MIDDLEWARES = {
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,
    "middlewares.outlinks.OutlinksMiddleware": 950,
    "middlewares.frames.FramesMiddleware": 960,
}

# --- Pages -----------------------------------------------------------------------------------------------------------
HTML_PROCESS = True
MIME_PROCESSES = 1
MIME_TIMEOUT = 20
MIME_MEMORY = 1_073_741_824
TEXT_LINKS = False
SITEMAPS_FROM_ROBOTS = False
FRAMES_STITCHED = False
SIMHASH_DISTANCE = 3
NEAR_DUPLICATES = "mark"
NEAR_DUPLICATES_FOLLOW = True
ITEM_PROCESSOR = "webcrawl.crawler.pages.processor.ItemProcessor"
ITEM_PIPELINES = {
    "pipelines.checksum.ChecksumPipeline": 100,
    "pipelines.html.HtmlPipeline": 200,
    "pipelines.pdf.PdfPipeline": 210,
    "pipelines.feed.FeedPipeline": 211,
    "pipelines.sitemap.SitemapPipeline": 212,
    "pipelines.image.ImagePipeline": 213,
    "pipelines.media.MediaPipeline": 214,
    "pipelines.office.OfficePipeline": 215,
    "pipelines.json_data.JsonDataPipeline": 216,
    "pipelines.text.TextPipeline": 217,
    "pipelines.archive.ArchivePipeline": 218,
    "pipelines.language.LanguagePipeline": 280,
    "pipelines.counts.CountsPipeline": 290,
    "pipelines.near_duplicates.NearDuplicatesPipeline": 300,
    "pipelines.warc.WarcPipeline": 800,
    "pipelines.metadata.MetadataPipeline": 900,
    "pipelines.listeners.ListenersPipeline": 950,
}
LISTENERS_MAXLEN = 0
FEED_EXPORTERS = {"csv": "webcrawl.crawler.feeds.PageCsvExporter"}

# --- What a person sees ----------------------------------------------------------------------------------------------
PROGRESS = "auto"
PROGRESS_INTERVAL = 10
LOG_LEVEL = "WARNING"
LOG_FORMATTER = "webcrawl.crawler.logs.QuietLogFormatter"
STATS_DUMP = False
DOWNLOADER_STATS = False
LOGSTATS_INTERVAL = 0
EXTENSIONS = {
    "webcrawl.crawler.progress.Progress": 0,
    "webcrawl.crawler.summary.Summary": 0,
    "scrapy.extensions.telnet.TelnetConsole": None,
    "scrapy.extensions.remote_control.RemoteControl": None,
    "scrapy.extensions.throttle.AutoThrottle": None,
    "scrapy.extensions.logstats.LogStats": None,
}
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False

# --- How Scrapy runs -------------------------------------------------------------------------------------------------
# Without Twisted's reactor: asyncio with uvloop, measured at 1.2 ms a fetch against 1.7.
TWISTED_REACTOR_ENABLED = False
ASYNCIO_EVENT_LOOP = "uvloop.Loop"
WARN_ON_GENERATOR_RETURN_VALUE = False
