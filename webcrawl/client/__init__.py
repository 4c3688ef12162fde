"""Clients of the HTTP API that `scrapy serve` offers.

    from webcrawl.client import Client

    with Client() as client:
        print(client.fetch("https://example.org/", parts=["markdown"]).parts.markdown)

They need the packages of the extra `client`, and no other part of webcrawl. The service answers with the types of
answers.py.
"""

from __future__ import annotations

try:
    import httpx  # noqa: F401
    import msgspec  # noqa: F401
except ImportError as error:
    from webcrawl.config.libraries import missing

    raise missing("the client", "httpx", "client") from error

from webcrawl.client.answers import (
    CrawlDetails,
    CrawlEntry,
    FacetValue,
    FetchedPage,
    FetchError,
    IterationEntry,
    JobEntry,
    PageEvent,
    PageParts,
    PageRecord,
    SearchedPage,
    SearchedPages,
    SteeredCrawl,
    WebhookEntry,
)
from webcrawl.client.asynchronous import AsyncClient
from webcrawl.client.blocking import Client
from webcrawl.errors import ServiceProblem, ServiceUnreachable

__all__ = [
    "AsyncClient",
    "Client",
    "CrawlDetails",
    "CrawlEntry",
    "FacetValue",
    "FetchedPage",
    "FetchError",
    "IterationEntry",
    "JobEntry",
    "PageEvent",
    "PageParts",
    "PageRecord",
    "SearchedPage",
    "SearchedPages",
    "ServiceProblem",
    "ServiceUnreachable",
    "SteeredCrawl",
    "WebhookEntry",
]
