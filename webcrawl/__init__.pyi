# The public names. Each is imported when it is first used; docs/stability.md says what they promise.
from webcrawl.addon import WebcrawlAddon as WebcrawlAddon
from webcrawl.config.program import VERSION as __version__
from webcrawl.crawler.command import OpenedCrawlCommand as OpenedCrawlCommand
from webcrawl.crawler.components import Reads as Reads
from webcrawl.crawler.download.protocol import Answer as Answer, Protocol as Protocol
from webcrawl.crawler.pages.mime_pipeline import MimePipeline as MimePipeline
from webcrawl.documents.document import Document as Document
from webcrawl.documents.html.text import visible_text as visible_text
from webcrawl.documents.mime.facts import Facts as Facts, Link as Link
from webcrawl.documents.mime.office import Zipped as Zipped
from webcrawl.documents.page import Page as Page
from webcrawl.engine.scripts import script_call as script_call
from webcrawl.errors import (
    BrokenTransfer as BrokenTransfer,
    ConfigurationError as ConfigurationError,
    CrawlError as CrawlError,
    InvalidURL as InvalidURL,
    NoSuchObject as NoSuchObject,
    StoreError as StoreError,
    StoreUnavailable as StoreUnavailable,
    UnreadableDocument as UnreadableDocument,
)
from webcrawl.frontier import Frontier as Frontier
from webcrawl.hosts.politeness import Outcome as Outcome, Throttled as Throttled
from webcrawl.metrics.exposition import crawl_exposition as crawl_exposition
from webcrawl.middlewares.politeness import PolitenessMiddleware as PolitenessMiddleware
from webcrawl.opened import OpenedCrawl as OpenedCrawl, host_named as host_named
from webcrawl.policies.priorities import Prospect as Prospect, Term as Term
from webcrawl.spiders.base import BroadSpider as BroadSpider
from webcrawl.stores.objects.store import ObjectStore as ObjectStore, StoredObject as StoredObject
from webcrawl.urls.filters import URLFilter as URLFilter
