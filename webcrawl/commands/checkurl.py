"""`scrapy checkurl URL`: shows whether a URL would be crawled, and why."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, cast

from webcrawl.config import read
from webcrawl.crawler.command import SessionCommand
from webcrawl.errors import AddressRefused, NameNotResolved, StoreError
from webcrawl.hosts.robots import RobotsPolicy, robots_url
from webcrawl.urls.canonical import hostname, normalize, port, split
from webcrawl.urls.scope import Scope, ScopeKind
from webcrawl.urls.seeds import seed_url

if TYPE_CHECKING:
    from webcrawl.crawler.session import Session


class Command(SessionCommand):
    """Fetches nothing: the robots.txt verdict comes from the crawl's cached copy. The name of the host is resolved."""

    needs_crawl = False

    def syntax(self) -> str:
        return "[options] <url>"

    def short_desc(self) -> str:
        return "Show whether a URL would be crawled, by filters, robots.txt, address guard and seen set"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--crawl",
            default=None,
            help="use the scope of this crawl; by default that of CRAWL_ID, the only crawl, or broad",
        )
        parser.add_argument(
            "--scope", choices=("host", "domain", "web"), help="check a scope of this kind instead"
        )
        parser.add_argument("--seeds", default="", help="seeds of that scope, separated by commas")

    def crawl_id(self, args: list[str]) -> str | None:
        return None

    async def work(self, session: Session, args: list[str], opts: argparse.Namespace) -> None:
        connection = session.connection
        if len(args) != 1:
            raise StoreError("give one URL")
        url = normalize(args[0])
        host, path = split(url)
        exists = await connection.adopt_shards()
        kind = await connection.crawl.scope_kind()
        if opts.scope:
            seeds = [seed_url(seed) for seed in opts.seeds.split(",") if seed]
            await session.scope.set(Scope(opts.scope, seeds), remember=False)
        elif kind is not None:
            await session.scope.set(Scope.from_keys(cast("ScopeKind", kind), ()), remember=False)
        verdicts = session.scope.filters.verdicts(url)
        report: dict[str, Any] = {
            "url": url,
            "canonical": session.canonicalizer.canonical(url),
            "fingerprint": session.canonicalizer.fingerprint(url),
            "host": host,
            "path": path,
            "shard": connection.keys.shard(host),
            "filters": {verdict.name: _word(url, verdict.url) for verdict in verdicts},
            "robots": await self._robots(session, host, url),
            "address": await _address(session, url),
            "seen": await _seen(session, host, url) if exists else "no: there is no such crawl",
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


async def _address(session: Session, url: str) -> str:
    """The verdict of the address guard on what the host resolves to."""
    name, number = hostname(url), port(url)
    try:
        answer = await session.resolver.resolve(name)
    except NameNotResolved as error:
        return f"unknown: {error}"
    by_seed = ""
    if session.guard.inner(answer.addresses) and await session.scope.settle_seed(
        name, number, answer.addresses, remember=False
    ):
        by_seed = ", because a seed has this host"
    try:
        session.guard.check_all(answer.addresses, hostname=name, port=number)
    except AddressRefused as error:
        return f"refused: {error}; ALLOWED_NETWORKS would allow it"
    return f"allowed{by_seed}: {', '.join(answer.addresses)}"


async def _seen(session: Session, host: str, url: str) -> str:
    connection = session.connection
    if session.config.bloom:
        return 'unknown: with SEEN_SET = "bloom", only the worker knows it'
    fingerprint = session.canonicalizer.request_fingerprint("GET", url, b"")
    if await connection.frontier.is_seen(host, fingerprint):
        return f"yes: crawl {connection.keys.crawl!r} has queued it before, and does not queue it again"
    return "no"


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
