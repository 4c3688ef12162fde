"""The base class of commands that inspect a crawl, and the check of a crawl's settings.

Scrapy imports every command for each command, `scrapy list` too, so slow modules are imported where they are used.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.config import read
from webcrawl.errors import ConfigurationError, CrawlError, InvalidURL, StoreError

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.crawler import Crawler
    from scrapy.settings import BaseSettings, Settings
    from scrapy.spiderloader import SpiderLoaderProtocol

    from webcrawl.crawler.session import Session
    from webcrawl.stores.metadata import Metadata

DEFAULT_CRAWL = "broad"
_MOST_NAMED = 20


class SessionCommand(ScrapyCommand):
    """A command that opens the session of a crawl, and prints errors in one line."""

    requires_project = True
    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}
    needs_engine = True
    needs_crawl = True
    """Fail if the crawl does not exist, without starting an engine."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from redis.exceptions import RedisError

        try:
            asyncio.run(self._run(args, opts))
            sys.stdout.flush()
        except BrokenPipeError:
            # the reader has closed the pipe, as `head` does; Python flushes stdout again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (CrawlError, RedisError, OSError) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            self.exitcode = 1

    @abstractmethod
    async def work(self, session: Session, args: list[str], opts: argparse.Namespace) -> None:
        """Do the command's work; CrawlError, RedisError and OSError are printed."""

    def crawl_id(self, args: list[str]) -> str | None:
        """The crawl that the arguments name, by default the only argument; None if they name none."""
        if len(args) > 1:
            raise UsageError("too many arguments: name one crawl")
        return args[0] if args else None

    async def _run(self, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.crawler.session import Session

        assert self.settings is not None
        self.settings = completed(self.settings)
        name = getattr(opts, "crawl", None) or self.crawl_id(args)
        if name is not None:
            self.settings.set("CRAWL_ID", name, priority="cmdline")
        session = Session(self.settings, DEFAULT_CRAWL)
        try:
            if self.needs_engine:
                embedded = session.connection.server.is_embedded
                if self.needs_crawl and embedded and not (session.stores.data_dir / "engine").exists():
                    raise StoreError(f"no crawl was run in {session.connection.server}")
                await session.connection.connect()
                if not read(self.settings, "CRAWL_ID"):
                    crawls = await session.connection.crawls()
                    if len(crawls) == 1:
                        session.connection.use(crawls[0])
            await self.work(session, args, opts)
        finally:
            await session.close()


async def check_crawl(session: Session) -> None:
    """Use the crawl's own number of shards; raises StoreError when there is no such crawl."""
    connection = session.connection
    if not await connection.adopt_layout():
        crawls = await connection.crawls()
        others = f"; existing crawls: {', '.join(crawls[:_MOST_NAMED])}" if crawls else ""
        raise StoreError(f"there is no crawl {connection.keys.crawl!r} in {connection.server}{others}")


def existing_metadata(session: Session) -> Metadata:
    """The metadata database of the settings; raises StoreError when it does not exist."""
    metadata = metadata_if_any(session)
    if metadata is None:
        raise StoreError(
            f"nothing was stored yet: there is no {session.stores.metadata.partition(':///')[2]}"
        )
    return metadata


def metadata_if_any(session: Session) -> Metadata | None:
    """The metadata database of the settings, or None when its file does not exist; raises StoreError."""
    from sqlalchemy.engine import make_url

    from webcrawl.stores.metadata import Metadata

    url = make_url(session.stores.metadata)
    if url.get_backend_name() == "sqlite" and not (url.database and Path(url.database).exists()):
        return None
    return Metadata.to_read(session.stores.metadata, history=session.stores.history)


def host_named(text: str) -> str:
    """The host key of a URL such as https://example.org; raises StoreError for anything else."""
    from webcrawl.urls.canonical import normalize, split

    try:
        return split(normalize(text))[0]
    except InvalidURL as error:
        raise StoreError(f"{text!r} is not a host such as https://example.org: {error}") from error


def completed(settings: Settings, spider: type[Spider] | None = None) -> Settings:
    """The settings that a crawl with this spider has: those given, with what the spider and the add-ons set."""
    return crawler_of(settings, spider).settings


def crawler_of(settings: Settings, spider: type[Spider] | None) -> Crawler:
    """A crawler that does not run, with its add-ons loaded."""
    from scrapy import Spider
    from scrapy.addons import AddonManager
    from scrapy.crawler import Crawler

    AddonManager.load_pre_crawler_settings(settings)
    crawler = Crawler(spider or Spider, settings)
    crawler.addons.load_settings(crawler.settings)
    return crawler


def crawl_settings(loader: SpiderLoaderProtocol, settings: Settings, name: str) -> BaseSettings:
    """The settings of a crawl with this spider, checked before anything starts.

    Raises ConfigurationError when there is no such spider, a setting is wrong, or a safeguard is missing.
    """
    from scrapy_redis.spiders import RedisMixin

    from webcrawl.crawler.named_components import check_components
    from webcrawl.crawler.safeguards import check_addon, check_safeguards
    from webcrawl.crawler.session import Session

    if name not in loader.list():
        raise ConfigurationError(f"there is no spider {name!r}: `scrapy list` shows the spiders")
    spider = loader.load(name)
    given = settings.copy()
    spider.update_settings(given)
    check_components(given)  # before the add-on uses them
    crawler = crawler_of(settings, spider)
    check_addon(crawler)
    check_safeguards(crawler.settings)
    settings = crawler.settings
    session = Session(settings, name)
    server = session.connection.server
    if issubclass(spider, RedisMixin) and server.is_embedded:
        raise ConfigurationError(f"spider {name!r} reads its start URLs from a server: set REDIS_URL")
    if issubclass(spider, RedisMixin) and not server.suits_scrapy_redis:
        raise ConfigurationError(
            f"spider {name!r} reads its start URLs by scrapy-redis, whose client connects to one server: REDIS_URL "
            "must name one, or `redis_cls` in REDIS_PARAMS a client for several"
        )
    return settings
