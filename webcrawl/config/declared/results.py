"""Settings for the results of a crawl: files, tables, the stream of pages."""

from __future__ import annotations

from webcrawl.config.kinds import Choice, ChoiceByRule, Choices, Number, Seconds, String, TimesByRule, Whole
from webcrawl.config.setting import Setting, SettingGroup

GROUP = SettingGroup(
    "Keep results",
    Setting(
        "DATA_DIR",
        "data",
        "The folder of a crawl: the embedded engine, `warc/`, `metadata.db`, `summary.json`, logs and "
        "temporary files. Crawls with different `CRAWL_ID` may share it; `summaries/` has the figures of each. "
        "Only its owner can read it. To let a group read it too, create the folder before the crawl, with "
        "`mkdir -m 2750 data`. Its files get the group rights of the folder. Other users have no rights.",
        example="/srv/crawls/docs",
    ),
    Setting(
        "STORE_URI",
        None,
        "Where [WARC files](../guide/archive.md) are stored: `file:///folder` or `s3://bucket/prefix`; `None` means "
        "`DATA_DIR/warc`. Files for S3 are written below `DATA_DIR/spool` first.",
        values=String(),
        example="s3://my-bucket/crawls",
    ),
    Setting(
        "OBJECT_STORES",
        {
            "file": "webcrawl.stores.objects.folder.FolderStore",
            "s3": "webcrawl.stores.objects.s3.S3Store",
        },
        "The class that stores objects for each URI scheme, for `STORE_URI`, `FRONTIER_SPILL_URI` and the "
        "commands that take a URI. Entries are added to the default ones; `None` removes one. See [Add a "
        "storage backend](../howto/add-a-storage-backend.md).",
        example={"dav": "webcrawl.stores.objects.webdav.WebDavStore"},
    ),
    Setting(
        "STORE_SPOOL_MAX_BYTES",
        100_000_000_000,
        "Bytes below `DATA_DIR/spool` that may wait for S3, for all workers with this `DATA_DIR`; 0 means "
        "no limit. At the limit, workers pause until S3 is available again.",
        example=20_000_000_000,
    ),
    Setting(
        "STORE_MIN_FREE_BYTES",
        100_000_000,
        "Workers pause while the disk of `DATA_DIR` or of the WARC files has less free space than this.",
        example=5_000_000_000,
    ),
    Setting(
        "STORE_MAX_SHARE",
        1.0,
        "Workers [pause](../guide/archive.md#full-disks-and-quotas) while this share of the disk of `DATA_DIR` or of "
        "the WARC files is used, or of `STORE_QUOTA_BYTES`. An alarm says it before, from nine tenths of the share on. "
        "With 1, only the quota and `STORE_MIN_FREE_BYTES` count.",
        values=Number(least=0.01, most=1.0),
        example=0.7,
    ),
    Setting(
        "STORE_QUOTA_BYTES",
        0,
        "The bytes that all objects below `STORE_URI` may have together, such as the quota of a bucket; 0 means that "
        "there is no limit. Each worker lists the store for it, with at most 1% of its time.",
        example=10_000_000_000_000,
    ),
    Setting(
        "WARC_ROLL_BYTES",
        1_000_000_000,
        "Compressed size at which a WARC file is closed and the next one begins.",
        values=Whole(least=1_000_000),
        example=100_000_000,
    ),
    Setting(
        "WARC_ROLL_SECONDS",
        3600,
        "Age at which a WARC file is closed; 0 means never.",
        values=Number(),
        example=600,
    ),
    Setting(
        "WARC_ROBOTSTXT",
        True,
        "Archives each fetch of robots.txt, with its redirects and errors, [as Common Crawl "
        "does](../guide/archive.md#robotstxt): in WARC files in `DATA_DIR/robotstxt`, or in `robotstxt/` below "
        "`STORE_URI`.",
    ),
    Setting(
        "DEPTH_OF_COPY",
        {},
        "[How much of a page is copied](archive.md#shallow-copies), by host or URL pattern as in "
        "[`RENDER`](#render), the first match counts: `head` asks by HEAD for status and headers alone, `metadata` "
        "stores the row and the links and keeps the page out of the archive, `full` is as without a rule. A word alone "
        "is for all pages.",
        values=ChoiceByRule(("head", "metadata", "full")),
        example={"example.org": "full", "*/video/*": "head", "*": "metadata"},
    ),
    Setting(
        "LINKS",
        False,
        "Stores the links of each page, followed or not, as Parquet in `DATA_DIR/links` or in `links/` below "
        "`STORE_URI`; see [The link store](../guide/links.md). It needs `pip install pyarrow`.",
    ),
    Setting(
        "TEXT",
        "",
        "Stores the [text of pages](../guide/texts.md): `wet` as WARC records in `DATA_DIR/wet`, `parquet` as tables "
        "in `DATA_DIR/texts`, or both: `wet,parquet`. With `STORE_URI`, the folders `wet/` and `texts/` are below it. "
        "Parquet needs `pip install pyarrow`. `feed` adds the text to "
        "[feeds of the format `pages`](../guide/texts.md#in-feeds).",
        values=Choices(("wet", "parquet", "feed")),
        example="parquet",
    ),
    Setting(
        "TEXT_PART",
        "main",
        "The part of a page whose text `TEXT` stores, and exports, the search index and the HTTP API read: `main` is "
        "the [main part](duplicates.md#the-main-part-of-a-page), `page` the whole page, with menus and margins. "
        "`both` stores [two texts of each page](../guide/texts.md#the-part-of-a-page).",
        values=Choice(("main", "page", "both")),
        example="both",
    ),
    Setting(
        "TEXT_MARKDOWN",
        False,
        "Stores HTML pages as Markdown too, where `TEXT` stores their text.",
    ),
    Setting(
        "TEXT_SIGNALS",
        False,
        "Stores [signals of the quality](texts.md#signals) of each text in the tables of `TEXT`, such as the share of "
        "repeated lines, by which data sets for language models are filtered.",
    ),
    Setting(
        "EXPORT_PARTITION",
        "",
        "The folders of [exports](exports.md#partitions) of pages, links and texts, which readers take for a "
        "column: `date=` by the day of the fetch, `crawl=`, `shard=` with 64 by a hash of the host, or `none`. By "
        "default, pages are in folders by day, and links and texts in one folder.",
        values=Choice(("", "date", "crawl", "shard", "none")),
        example="shard",
    ),
    Setting(
        "LAKE",
        "",
        "`iceberg` brings [tables of Apache Iceberg](../guide/lake.md) over the pages, texts and links up to date "
        "when a run of the crawl ends. Their catalogue is in `METADATA_URI`, their own files are in `DATA_DIR/lake` "
        "or in `lake/` below `STORE_URI`. It needs `pip install pyiceberg`.",
        values=Choice(("", "iceberg")),
        example="iceberg",
    ),
    Setting(
        "METADATA_URI",
        None,
        "The database of table `pages`, as an SQLAlchemy URL; `None` means `DATA_DIR/metadata.db`. "
        'PostgreSQL needs `pip install "psycopg[binary]"` and [few '
        "rights](../guide/exports.md#the-database-itself); tables are created automatically.",
        values=String(),
        example="postgresql+psycopg://crawler@db.example.com/crawl",
    ),
    Setting(
        "METADATA_PARTITIONS",
        0,
        "Partitions of tables `pages` and `fetches` that a crawl creates in PostgreSQL, by a hash of the URL; 0 means "
        "none. They are for tables of hundreds of millions of rows, and cost smaller ones time. [Tables that "
        "exist](../scale.md#metadata) stay as they are.",
        values=Whole(least=0, most=1_000),
        example=16,
    ),
    Setting(
        "METADATA_HISTORY",
        30,
        "Earlier fetches of a URL that table `fetches` keeps; 0 keeps none. The latest fetch is in table "
        "`pages`.",
        example=5,
    ),
    Setting(
        "REVISIT",
        False,
        "Sends conditional requests for pages that an earlier crawl stored in the same `METADATA_URI`. A page "
        'that answers 304 keeps its row, with `state` "unchanged", and its links are read from the archive. '
        "URLs that were never visited come first, then "
        "[those visited longest ago](priorities.md#last-visits).",
    ),
    Setting(
        "RECRAWL",
        False,
        "The crawl does not end: pages are fetched again when [that is worth it](../guide/crawl-without-end.md). "
        "`scrapy stop`, `CLOSESPIDER_TIMEOUT` and the limits of the crawl end it.",
    ),
    Setting(
        "RECRAWL_MIN_INTERVAL",
        3_600.0,
        "The shortest time between two fetches of a page with `RECRAWL`, in seconds, or as `90s`, `5m`, `2h`, `7d`. "
        'Dates of a spider (`meta["recrawl_after"]`) may be earlier.',
        values=Seconds(0.001),
        example=600.0,
    ),
    Setting(
        "RECRAWL_MAX_AGE",
        0.0,
        "With `RECRAWL`, every page that exists is fetched again within this time, in seconds, or as `90s`, `5m`, "
        "`2h`, `7d`; 0 means that a page may wait as long as it is not worth a fetch.",
        values=Seconds(),
        example=2_592_000.0,
    ),
    Setting(
        "RECRAWL_WEIGHTS",
        "",
        "With `RECRAWL`, [weights of pages](../guide/crawl-without-end.md#weights), which multiply their importance: a "
        "column of table `pages`, `details.KEY`, or `@FILE` with a URL, pattern or domain and its weight on each line.",
        example="@weights.txt",
    ),
    Setting(
        "FETCH_MAX_AGE",
        {"*": 86_400.0},
        "How old a stored page may be that [the service](../guide/service.md) answers instead of fetching it, unless "
        "the request says so: seconds, or text such as `90s`, `5m`, `2h` or `7d`, by host or URL pattern as in "
        '[`RENDER`](#render), `"*"` for all pages. The first rule that matches counts.',
        values=TimesByRule(),
        example={"news.example": 600.0, "*": 604_800.0},
    ),
    Setting(
        "LISTENERS_MAXLEN",
        0,
        "If above 0, every finished page is published to a stream in the engine that keeps about this "
        "many; see [Listeners](../guide/listeners.md). 100,000 pages take about 100 MB of the engine's memory.",
        example=100_000,
    ),
)
