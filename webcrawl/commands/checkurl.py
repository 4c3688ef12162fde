"""`scrapy checkurl URL`: shows whether and how early a URL would be crawled, and why."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any, cast, get_args

from webcrawl.crawler.command import SessionCommand
from webcrawl.errors import AddressRefused, NameNotResolved, StoreError
from webcrawl.hosts.robots import RobotsPolicy, robots_url
from webcrawl.mining.weights_file import WeightsFile
from webcrawl.policies.pattern_records import HostPatterns
from webcrawl.policies.priorities import Prospect
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
        return "Show whether a URL would be crawled, and how early, by filters, robots.txt, address, seen set and level"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument(
            "--crawl",
            default=None,
            help="use the scope of this crawl; by default that of CRAWL_ID, the only crawl, or broad",
        )
        parser.add_argument("--scope", choices=get_args(ScopeKind), help="check a scope of this kind instead")
        parser.add_argument("--seeds", default="", help="seeds of that scope, separated by commas")
        parser.add_argument(
            "--from",
            dest="page",
            metavar="PAGE",
            default="",
            help="the URL of the page with the link, for LINK_RULES and PatternRecord",
        )
        parser.add_argument(
            "--depth",
            type=int,
            default=1,
            help="the number of links between a seed and the URL, by default 1",
        )
        parser.add_argument("--text", default="", help="the text of the link, for ANCHOR_WORDS and MINED")

    def crawl_id(self, args: list[str]) -> str | None:
        return None

    async def work(self, session: Session, args: list[str], opts: argparse.Namespace) -> None:
        connection = session.connection
        if len(args) != 1:
            raise StoreError("give one URL")
        url = normalize(args[0])
        host, path = split(url)
        exists = await connection.adopt_layout()
        kind = await connection.crawl.scope_kind()
        if opts.scope:
            seeds = [seed_url(seed) for seed in opts.seeds.split(",") if seed]
            await session.scope.set(Scope(opts.scope, seeds), remember=False)
        elif kind is not None:
            await session.scope.set(Scope.from_keys(cast("ScopeKind", kind), ()), remember=False)
        patterns = HostPatterns.unpack(await connection.frontier.patterns(host) if exists else b"")
        source = split(normalize(opts.page)) if opts.page else ("", "")
        sunk = patterns.levels(path, tries=source[0] != host or patterns.tries(source[1]))
        simpler = await _simpler(session, host, path) if exists and opts.depth > 0 else None
        if session.config.mined and (mined := WeightsFile.of(session.stores).changed()):
            session.scope.use_mined(mined)
        verdicts = session.scope.filters.verdicts(url)
        report: dict[str, Any] = {
            "url": url,
            "canonical": session.canonicalizer.canonical(url),
            "fingerprint": session.canonicalizer.fingerprint(url),
            "host": host,
            "path": path,
            "shard": connection.keys.shard(host),
            **({"DUST": f"fetches {simpler} instead"} if simpler else {}),
            "filters": {verdict.name: _word(url, verdict.url) for verdict in verdicts},
            **_link(session, url, opts),
            **_rule(session, host),
            "robots": await self._robots(session, host, url),
            "address": await _address(session, url),
            "seen": await _seen(session, host, url) if exists else "no: there is no such crawl",
            **_priority(session, url, opts, sunk),
        }
        if opts.json:
            print(json.dumps(report, indent=2))
        else:
            _print(report)

    async def _robots(self, session: Session, host: str, url: str) -> str:
        known = await session.connection.engine.client.get(session.connection.keys.robots(host))
        if known is None:
            return f"unknown: {robots_url(host)} was not fetched yet, or the copy has expired"
        policy = RobotsPolicy.from_bytes(known)
        agent = session.robots_agents.of(url)
        delay = policy.crawl_delay(agent)
        return ("allowed" if policy.allows(url, agent) else "disallowed") + (
            f", Crawl-delay {delay:g}" if delay else ""
        )


def _rule(session: Session, host: str) -> dict[str, str]:
    """The rule of POLITENESS_RULES for the host, if there is one."""
    rules = session.turns.rules
    return {"POLITENESS_RULES": str(rule)} if rules and (rule := rules.of(hostname(host))).match else {}


async def _simpler(session: Session, host: str, path: str) -> str | None:
    """The URL that the DUST rules of the host make of a link; None if it stays."""
    # imported late: the engine's client is slow to import
    from webcrawl.frontier.dust import DustRules

    dust, connection = session.dust, session.connection
    dust.open(host, *await DustRules(connection.engine, connection.keys).of(host))
    found = dust.rewrite(host, path)
    return None if found is None else found.url


def _link(session: Session, url: str, opts: argparse.Namespace) -> dict[str, str]:
    """The verdicts of OFFSITE_HOPS and LINK_RULES, where they have a say."""
    scope, found = session.scope, {}
    if scope.offsite(url, 1) is not None:
        found["OFFSITE_HOPS"] = "follows it from pages within the scope"
    if opts.page:
        page = normalize(opts.page)
        rules = [f'("{rule.page}", {_quoted(rule.links)})' for rule in scope.link_rules.matching(page)]
        links = scope.link_rules.on(page)
        verdict = "follows" if links is None or links.match(url) else "does not follow"
        why = f"{', '.join(rules)} match the page" if rules else "no rule matches the page"
        found["LINK_RULES"] = f"{verdict} it: {why}"
    return found


def _priority(session: Session, url: str, opts: argparse.Namespace, sunk: int) -> dict[str, Any]:
    """The weight of a link with its terms, and its level. `sunk`: the levels by which its pattern has sunk."""
    page = normalize(opts.page) if opts.page else ""
    prospect = Prospect(url, split(url)[1], max(opts.depth, 0), page, time.time(), opts.text, sunk=sunk)
    weighed = session.scope.prioritizer.weighed(prospect)
    return {
        "terms": {part.name: {"weight": part.weight, "why": part.why} for part in weighed.parts},
        "weight": weighed.weight,
        **({"URL_LEVELS": ", ".join(weighed.matched)} if weighed.matched else {}),
        "level": weighed.level,
    }


def _quoted(pattern: str | None) -> str:
    return "None" if pattern is None else f'"{pattern}"'


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
                print(f"  {inner:<24} {_shown(verdict)}")
        else:
            print(f"{name + ':':<13} {_shown(value)}")


def _shown(value: Any) -> str:
    if isinstance(value, dict):  # a term
        return f"{value['weight']:+.4f}  {value['why']}"
    return f"{value:+g}" if isinstance(value, float) else str(value)
