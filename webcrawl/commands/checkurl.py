"""`scrapy checkurl URL`: shows whether a URL would be crawled, and why."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, cast

from webcrawl.config import read
from webcrawl.crawler.command import DEFAULT_CRAWL, SessionCommand
from webcrawl.errors import StoreError
from webcrawl.hosts.robots import RobotsPolicy, robots_url
from webcrawl.urls.canonical import normalize, split
from webcrawl.urls.scope import Scope, ScopeKind
from webcrawl.urls.seeds import seed_url

if TYPE_CHECKING:
    from webcrawl.crawler.session import Session


class Command(SessionCommand):
    """Fetches nothing: the robots.txt verdict comes from the crawl's cached copy."""

    needs_crawl = False

    def syntax(self) -> str:
        return "[options] <url>"

    def short_desc(self) -> str:
        return "Show a URL's canonical form, each filter's verdict and the robots.txt verdict"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--crawl", default=None, help="use the scope of this crawl (default: CRAWL_ID or broad)"
        )
        parser.add_argument(
            "--scope", choices=("host", "domain", "web"), help="check a scope of this kind instead"
        )
        parser.add_argument("--seeds", default="", help="seeds of that scope, separated by commas")

    def crawl_id(self, args: list[str]) -> str:
        return DEFAULT_CRAWL

    async def work(self, session: Session, args: list[str], opts: argparse.Namespace) -> None:
        connection = session.connection
        if len(args) != 1:
            raise StoreError("give one URL")
        url = normalize(args[0])
        host, path = split(url)
        kind = await connection.crawl.scope_kind()
        if opts.scope:
            seeds = [seed_url(seed) for seed in opts.seeds.split(",") if seed]
            await session.scope.set(Scope(opts.scope, seeds), remember=False)
        elif kind is not None:
            await session.scope.set(Scope.from_keys(cast("ScopeKind", kind), ()), remember=False)
        verdicts = session.scope.filters.verdicts(url)
        report = {
            "url": url,
            "canonical": session.canonicalizer.canonical(url),
            "fingerprint": session.canonicalizer.fingerprint(url),
            "host": host,
            "path": path,
            "shard": connection.keys.shard(host),
            "filters": {verdict.name: _word(url, verdict.url) for verdict in verdicts},
            "robots": await self._robots(session, host, url),
        }
        if opts.json:
            print(json.dumps(report, indent=2))
        else:
            _print(report)

    async def _robots(self, session: Session, host: str, url: str) -> str:
        assert self.settings is not None
        known = await session.connection.engine.client.get(session.connection.keys.robots(host))
        if known is None:
            return f"unknown: {robots_url(host)} was not fetched yet, or the copy has expired"
        policy = RobotsPolicy.from_bytes(known)
        agent = str(self.settings.get("ROBOTSTXT_USER_AGENT") or read(self.settings, "USER_AGENT"))
        delay = policy.crawl_delay(agent)
        return ("allowed" if policy.allows(url, agent) else "disallowed") + (
            f", Crawl-delay {delay:g}" if delay else ""
        )


def _word(url: str, result: str | None) -> str:
    if result is None:
        return "drops it"
    return "passes it" if result == url else f"makes it {result}"


def _print(report: dict[str, Any]) -> None:
    for name, value in report.items():
        if isinstance(value, dict):
            print(f"{name}:")
            for inner, verdict in value.items():
                print(f"  {inner:<24} {verdict}")
        else:
            print(f"{name + ':':<13} {value}")
