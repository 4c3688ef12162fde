"""What our commands have in common: a check of a crawl's settings, and the session of a crawl to be looked at.

Scrapy imports every command for each command, `scrapy list` too: what is slow to import is imported where it is used.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.errors import ConfigurationError, CrawlError, InvalidURL, StoreError

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings
    from scrapy.spiderloader import SpiderLoaderProtocol

    from webcrawl.crawler.session import Session
    from webcrawl.stores.metadata import Metadata

DEFAULT_CRAWL = "broad"


class SessionCommand(ScrapyCommand):
    """A command that opens the session of a crawl, and says in one line why it cannot."""

    requires_project = True
    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}
    needs_engine = True
    needs_crawl = True
    """Without a crawl there is nothing to show, and no engine is begun for it."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        from redis.exceptions import RedisError

        try:
            asyncio.run(self._run(args, opts))
        except (CrawlError, RedisError, OSError) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            self.exitcode = 1

    @abstractmethod
    async def work(self, session: Session, args: list[str], opts: argparse.Namespace) -> None:
        """Do what the command does; errors of the project's own are printed for you."""

    def crawl_id(self, args: list[str]) -> str:
        """The crawl that is meant: the only argument by default."""
        if len(args) > 1:
            raise UsageError("name one crawl")
        return args[0] if args else DEFAULT_CRAWL

    async def _run(self, args: list[str], opts: argparse.Namespace) -> None:
        from webcrawl.crawler.session import Session

        assert self.settings is not None
        name = getattr(opts, "crawl", None) or self.crawl_id(args)
        if name != DEFAULT_CRAWL:
            self.settings.set("CRAWL_ID", name, priority="cmdline")
        session = Session(self.settings, name)
        try:
            if self.needs_engine:
                embedded = session.connection.server.is_embedded
                if self.needs_crawl and embedded and not (session.stores.data_dir / "engine").exists():
                    raise StoreError(f"nothing was crawled into {session.connection.server}")
                await session.connection.connect()
            await self.work(session, args, opts)
        finally:
            await session.close()


async def check_crawl(session: Session) -> None:
    """Take the crawl that is meant as it was begun; raises StoreError when it never was."""
    if not await session.connection.adopt_shards():
        raise StoreError(
            f"there is no crawl {session.connection.keys.crawl!r} in {session.connection.server}"
        )


def existing_metadata(session: Session) -> Metadata:
    """The metadata database of the settings; raises StoreError when nothing was ever stored there."""
    metadata = metadata_if_any(session)
    if metadata is None:
        raise StoreError(
            f"nothing was stored yet: there is no {session.stores.metadata.partition(':///')[2]}"
        )
    return metadata


def metadata_if_any(session: Session) -> Metadata | None:
    """The same; None when there is no such file. Raises StoreError."""
    from sqlalchemy.engine import make_url

    from webcrawl.stores.metadata import Metadata

    url = make_url(session.stores.metadata)
    if url.get_backend_name() == "sqlite" and not (url.database and Path(url.database).exists()):
        return None
    return Metadata(session.stores.metadata, history=session.stores.history)


def host_named(text: str) -> str:
    """The host of a URL such as https://example.org; raises StoreError for what is none."""
    from webcrawl.urls.canonical import normalize, split

    try:
        return split(normalize(text))[0]
    except InvalidURL as error:
        raise StoreError(f"{text!r} is no host such as https://example.org: {error}") from error


def crawl_settings(loader: SpiderLoaderProtocol, settings: BaseSettings, name: str) -> BaseSettings:
    """The settings that a crawl of the spider will have, read as it will read them.

    Raises ConfigurationError when there is no such spider or one of them is wrong: before anything starts.
    """
    from scrapy_redis.spiders import RedisMixin

    from webcrawl.crawler.session import Session

    if name not in loader.list():
        raise ConfigurationError(f"there is no spider {name!r}: scrapy list shows those there are")
    spider, settings = loader.load(name), settings.copy()
    spider.update_settings(settings)
    session = Session(settings, name)
    if issubclass(spider, RedisMixin) and session.connection.server.is_embedded:
        raise ConfigurationError(
            f"REDIS_URL is needed: spider {name!r} takes its start URLs from a server that others must reach too"
        )
    return settings
