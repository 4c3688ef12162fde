"""The options of the benchmark of options, one line each, and what each is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.contender import CURL

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Option:
    """A crawl of a web with some settings.

    settings   in texts of which {home}, {postgres}, {valkey} and {proxy} are replaced
    beside     the option that it is compared with; "" for those that are only compared with
    needs      what is made for it: a server of s3, postgres, valkey or a collector, or the mined weights of a crawl
    web        http: all sites; two: the two largest, each with 16 connections; https: all sites, by TLS
    words      further words of the command
    variables  further variables of its environment
    workers    processes
    is_again   whether the metadata database has all pages of an earlier crawl
    """

    name: str
    settings: Mapping[str, object] = field(default_factory=dict)
    beside: str = DEFAULT
    needs: str = ""
    web: str = "http"
    words: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    workers: int = 1
    is_again: bool = False


HOSTS = [f"^https?://site-{number}\\.example\\.org/docs/" for number in range(10_000)]
WORDS = [f"/chapter-{number}/" for number in range(10_000)]
PAGES = r"^http://127\.0\.1\."
"""Matches all pages of the webs. It comes last, so that the patterns before it are tried."""
DOMAINS = [f"site-{number}.example.org" for number in range(10_000)]
RULES = [{"match": domain, "delay": 1} for domain in DOMAINS]
SECTIONS = [f"^https?://[^/]+/section-{number}/" for number in range(100)]
MANY = 10**9
"""A limit that is never reached, so that the same pages are crawled."""
ORDERS = ("depth-first", "random")
CURL_HANDLERS = {"http": CURL, "https": CURL}
AGAIN = "a second crawl"

OPTIONS = {
    option.name: option
    for option in [
        Option(DEFAULT, beside=""),
        Option("two hosts", web="two", beside=""),
        Option("HTTPS", web="https", beside=""),
        Option(AGAIN, is_again=True, beside=""),
        Option("no option", {}),  # how much two runs differ by chance
        Option("CRAWL_MAX_PAGES", {"CRAWL_MAX_PAGES": MANY}),
        Option("CRAWL_MAX_BYTES", {"CRAWL_MAX_BYTES": MANY**2}),
        Option("HOST_MAX_PAGES", {"HOST_MAX_PAGES": MANY}),
        Option("HOST_MAX_BYTES", {"HOST_MAX_BYTES": MANY**2}),
        Option("CLOSESPIDER_PAGECOUNT", {"CLOSESPIDER_PAGECOUNT": MANY}),
        Option("DEPTH_LIMIT", {"DEPTH_LIMIT": 1_000}),
        Option("URL_ALLOW, 1 pattern", {"URL_ALLOW": [PAGES]}),
        Option("URL_ALLOW, 100 patterns", {"URL_ALLOW": [*HOSTS[:99], PAGES]}),
        Option("URL_ALLOW, 10,000 patterns", {"URL_ALLOW": [*HOSTS[:9_999], PAGES]}),
        Option("URL_DENY, 10,000 words", {"URL_DENY": WORDS}),
        Option("DENIED_DOMAINS, 10,000", {"DENIED_DOMAINS": DOMAINS}),
        Option(
            "LINK_RULES, 100 pairs",
            {"LINK_RULES": [*((section, None) for section in SECTIONS), (PAGES, PAGES)]},
        ),
        Option("URL_LEVELS, 100 patterns", {"URL_LEVELS": [(section, 5) for section in SECTIONS]}),
        Option("ANCHOR_WORDS", {"ANCHOR_WORDS": {"next|weiter": 1, "log ?in|print": -2}}),
        Option("MINED", {"MINED": True, "CRAWL_ID": "second"}, needs="mined"),
        Option("TEXT_LINKS", {"TEXT_LINKS": True}),
        Option("PATH_ASCENDING", {"PATH_ASCENDING": True}),
        Option("FRAMES_STITCHED", {"FRAMES_STITCHED": True}),
        Option("POLITENESS_RULES, 10,000 hosts", {"POLITENESS_RULES": RULES}),
        Option("POLITENESS_UNIT = origin", {"POLITENESS_UNIT": "origin"}),
        Option("POLITENESS_ADDRESS_CONNECTIONS", {"POLITENESS_ADDRESS_CONNECTIONS": 16}),
        Option("POLITENESS_ADAPT", {"POLITENESS_ADAPT": True, "POLITENESS_MIN_DELAY": 0.001}),
        Option("URL_IGNORED_PARAMETERS", {"URL_IGNORED_PARAMETERS": ["utm_*", "session*"]}),
        Option("COOKIES_ENABLED", {"COOKIES_ENABLED": True}),
        Option("PROXIES", {"PROXIES": ["{proxy}"]}),
        Option("LOG_LEVEL = INFO", {"LOG_LEVEL": "INFO"}),
        Option("LOG_LEVEL = DEBUG", {"LOG_LEVEL": "DEBUG"}),
        Option("DOWNLOADER_STATS", {"DOWNLOADER_STATS": True}),
        Option("METRICS_PORT", {"METRICS_PORT": 9410}),
        *(
            Option(
                f"TRACES of {share} of the pages",
                {"TRACES": True},
                needs="collector",
                variables={"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": share},
            )
            for share in ("0.01", "1")
        ),
        Option("feed of JSON lines", words=("-o", "{home}/pages.jl")),
        Option("feed of CSV", words=("-o", "{home}/pages.csv")),
        Option("LISTENERS_MAXLEN", {"LISTENERS_MAXLEN": 100_000}),
        Option("TEXT = wet", {"TEXT": "wet"}),
        Option("TEXT = parquet", {"TEXT": "parquet"}),
        Option("TEXT = wet, TEXT_MARKDOWN", {"TEXT": "wet", "TEXT_MARKDOWN": True}),
        Option("STORE_URI in S3", {"STORE_URI": "s3://first/{home}"}, needs="s3"),
        Option("LINKS", {"LINKS": True}),
        Option("LINKS, TEXT = parquet", {"LINKS": True, "TEXT": "parquet"}),
        Option("METADATA_URI in PostgreSQL", {"METADATA_URI": "{postgres}"}, needs="postgres"),
        Option("REDIS_URL, by TCP", {"REDIS_URL": "{valkey}", "CRAWL_ID": "{crawl}"}, needs="valkey"),
        Option("CRAWL_WEIGHT", {"CRAWL_WEIGHT": 3}),
        Option("SEEN_SET = bloom", {"SEEN_SET": "bloom"}),
        *(Option(f"FRONTIER_ORDER = {order}", {"FRONTIER_ORDER": order}) for order in ORDERS),
        Option("IMPORTANCE = off", {"IMPORTANCE": "off"}),
        Option("FRONTIER_SHARDS = 64", {"FRONTIER_SHARDS": 64}),
        Option("FRONTIER_HOT_URLS = 50", {"FRONTIER_HOT_URLS": 50}),
        Option("DUST = False", {"DUST": False}),
        Option("HOST_BUDGETS = False", {"HOST_BUDGETS": False}),
        Option("SIMHASH_DISTANCE = 5", {"SIMHASH_DISTANCE": 5}),
        Option("NEAR_DUPLICATES = drop", {"NEAR_DUPLICATES": "drop"}),
        Option("NEAR_DUPLICATES_FOLLOW = False", {"NEAR_DUPLICATES_FOLLOW": False}),
        Option("HTML_PROCESS = False", {"HTML_PROCESS": False}),
        Option("PAGE_RESOURCES", {"PAGE_RESOURCES": True}),
        Option("two workers", workers=2),
        Option("REVISIT", {"REVISIT": True}, beside=AGAIN, is_again=True),
        Option("METADATA_HISTORY = 0", {"METADATA_HISTORY": 0}, beside=AGAIN, is_again=True),
        Option("CRAWL_MAX_PAGES, two hosts", {"CRAWL_MAX_PAGES": MANY}, beside="two hosts", web="two"),
        Option("HOST_MAX_PAGES, two hosts", {"HOST_MAX_PAGES": MANY}, beside="two hosts", web="two"),
        Option("HTTP/2 (curl handler)", {"DOWNLOAD_HANDLERS": CURL_HANDLERS}, beside="HTTPS", web="https"),
    ]
}
