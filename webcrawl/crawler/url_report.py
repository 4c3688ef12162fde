"""Reports whether and how early a crawl would fetch a URL, and why: the verdict of each of its rules."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, cast

from scrapy.settings import BaseSettings

from webcrawl.config import read
from webcrawl.crawler.shared_scope import SharedScope
from webcrawl.errors import AddressRefused, NameNotResolved
from webcrawl.frontier.host_answers import stored_robots
from webcrawl.frontier.host_report import DustRules
from webcrawl.hosts.address_guard import AddressGuard
from webcrawl.hosts.dns import Resolver
from webcrawl.hosts.opt_outs import deciding_group
from webcrawl.hosts.robots import robots_url
from webcrawl.opened import OpenedCrawl
from webcrawl.policies.pattern_records import HostPatterns
from webcrawl.policies.priorities import Prospect
from webcrawl.stores.weights_file import WeightsFile
from webcrawl.urls.canonical import hostname, normalize, port, split
from webcrawl.urls.scope import Scope, ScopeKind
from webcrawl.worker.host_records import Dust


@dataclass(frozen=True, slots=True)
class ReportedLink:
    """A URL, and the link that leads to it.

    page   the URL of the page with the link, for LINK_RULES and PatternRecord; empty if it does not matter
    depth  the number of links between a seed and the URL
    text   the text of the link, for ANCHOR_WORDS and MINED
    """

    url: str
    page: str = ""
    depth: int = 1
    text: str = ""


async def url_report(
    opened: OpenedCrawl,
    settings: BaseSettings,
    link: ReportedLink,
    *,
    exists: bool,
    scope: Scope | None = None,
) -> dict[str, Any]:
    """Returns the verdicts on a link by name.

    `exists`: the crawl was begun. `scope` is used instead of the crawl's own. Fetches nothing: the robots.txt verdict
    comes from the crawl's cached copy. The name of the host is resolved. Raises InvalidURL.
    """
    judges = _Judges(opened, settings, exists=exists)
    try:
        await judges.use_scope(scope)
        return await judges.report(link)
    finally:
        await judges.resolver.close()


class _Judges:
    """The rules of a crawl, by which its workers judge links."""

    def __init__(self, opened: OpenedCrawl, settings: BaseSettings, *, exists: bool) -> None:
        self.resolver = Resolver(read(settings, "DNS_SERVERS"), timeout=read(settings, "DNS_TIMEOUT"))
        self._opened = opened
        self._exists = exists
        self._guard = AddressGuard(read(settings, "ALLOWED_NETWORKS"))
        self._scope = SharedScope(opened.connection, self._guard, settings)
        self._dust = Dust(
            lambda url: self._scope.filters.apply(url),
            opened.canonicalizer.fingerprint,
            read(settings, "SIMHASH_DISTANCE"),
            enabled=read(settings, "DUST"),
        )

    async def use_scope(self, scope: Scope | None) -> None:
        """Judges by a scope, by default by the current scope of the crawl, if it has one."""
        if scope is None and (kind := await self._opened.connection.crawl.scope_kind()) is not None:
            scope = Scope.from_keys(cast("ScopeKind", kind), ())
        if scope is not None:
            await self._scope.set(scope, remember=False)

    async def report(self, link: ReportedLink) -> dict[str, Any]:
        opened, exists = self._opened, self._exists
        connection, canonicalizer = opened.connection, opened.canonicalizer
        url = normalize(link.url)
        host, path = split(url)
        patterns = HostPatterns.unpack(await connection.frontier.patterns(host) if exists else b"")
        source = split(normalize(link.page)) if link.page else ("", "")
        sunk = patterns.levels(path, tries=source[0] != host or patterns.tries(source[1]))
        simpler = await self._simpler(host, path) if exists and link.depth > 0 else None
        if opened.config.mined and (mined := WeightsFile.of(opened.stores).changed()):
            self._scope.use_mined(mined)
        verdicts = self._scope.filters.verdicts(url)
        return {
            "url": url,
            "canonical": canonicalizer.canonical(url),
            "fingerprint": canonicalizer.fingerprint(url),
            "host": host,
            "path": path,
            "shard": connection.keys.shard(host),
            **({"DUST": f"fetches {simpler} instead"} if simpler else {}),
            "filters": {verdict.name: _word(url, verdict.url) for verdict in verdicts},
            **self._link(url, link),
            **self._rule(host),
            "robots": await self._robots(host, url),
            "address": await self._address(url),
            "seen": await self._seen(host, url) if exists else "no: there is no such crawl",
            **self._priority(url, link, sunk),
        }

    async def _robots(self, host: str, url: str) -> str:
        connection = self._opened.connection
        known = await stored_robots(connection.engine, connection.keys, host)
        if known is None:
            return f"unknown: {robots_url(host)} was not fetched yet, or the copy has expired"
        agent = self._opened.robots_agents.of(url)
        verdict = "allowed" if known.policy.allows(url, agent) else "disallowed"
        if delay := known.policy.crawl_delay(agent):
            verdict += f", Crawl-delay {delay:g}"
        if read(self._opened.settings, "AI_OPT_OUTS") and (group := deciding_group(known.policy, url)):
            return f"disallowed to crawlers for AI; decided by the rules for {group}"
        line = known.policy.deciding_line(url, agent)
        return f'{verdict}; decided by "{line}"' if line else verdict

    def _rule(self, host: str) -> dict[str, str]:
        """Returns the rule of POLITENESS_RULES for the host, if any."""
        rules = self._opened.rules
        return {"POLITENESS_RULES": str(rule)} if rules and (rule := rules.of(hostname(host))).match else {}

    async def _simpler(self, host: str, path: str) -> str | None:
        """Returns the URL that the DUST rules of the host make of a link; None if it stays unchanged."""
        connection = self._opened.connection
        self._dust.open(host, *await DustRules(connection.engine, connection.keys).of(host))
        variant = self._dust.rewrite(host, path)
        return None if variant is None else variant.url

    def _link(self, url: str, link: ReportedLink) -> dict[str, str]:
        """Returns the verdicts of OFFSITE_HOPS and LINK_RULES, if they apply."""
        scope, verdicts = self._scope, {}
        if scope.offsite(url, 1) is not None:
            verdicts["OFFSITE_HOPS"] = "follows it from pages within the scope"
        if link.page:
            page = normalize(link.page)
            rules = [f'("{rule.page}", {_quoted(rule.links)})' for rule in scope.link_rules.matching(page)]
            links = scope.link_rules.on(page)
            verdict = "follows" if links is None or links.match(url) else "does not follow"
            verb = "match" if len(rules) > 1 else "matches"
            why = f"{', '.join(rules) or 'no rule'} {verb} the page"
            verdicts["LINK_RULES"] = f"{verdict} it: {why}"
        return verdicts

    def _priority(self, url: str, link: ReportedLink, sunk: int) -> dict[str, Any]:
        """Returns the weight of a link with its terms, and its level. `sunk`: the levels by which its pattern sank."""
        page = normalize(link.page) if link.page else ""
        prospect = Prospect(url, split(url)[1], max(link.depth, 0), page, time.time(), link.text, sunk=sunk)
        weighed = self._scope.prioritizer.weighed(prospect)
        return {
            "terms": {part.name: {"weight": part.weight, "why": part.why} for part in weighed.parts},
            "weight": weighed.weight,
            **({"URL_LEVELS": ", ".join(weighed.matched)} if weighed.matched else {}),
            "level": weighed.level,
        }

    async def _address(self, url: str) -> str:
        """Returns the verdict of the address guard on the addresses of the host."""
        name, number = hostname(url), port(url)
        try:
            answer = await self.resolver.resolve(name)
        except NameNotResolved as error:
            return f"unknown: {error}"
        by_seed = ""
        if self._guard.inner(answer.addresses) and await self._scope.settle_seed(
            name, number, answer.addresses, remember=False
        ):
            by_seed = ", because a seed has this host"
        try:
            self._guard.check_all(answer.addresses, hostname=name, port=number)
        except AddressRefused as error:
            return f"refused: {error}; ALLOWED_NETWORKS would allow it"
        return f"allowed{by_seed}: {', '.join(answer.addresses)}"

    async def _seen(self, host: str, url: str) -> str:
        connection = self._opened.connection
        if self._opened.config.bloom:
            return 'unknown: with SEEN_SET = "bloom", only the worker knows it'
        fingerprint = self._opened.canonicalizer.request_fingerprint("GET", url, b"")
        if await connection.frontier.is_seen(host, fingerprint):
            return f"yes: crawl {connection.keys.crawl!r} has queued it before, and does not queue it again"
        return "no"


def _quoted(pattern: str | None) -> str:
    return "None" if pattern is None else f'"{pattern}"'


def _word(url: str, result: str | None) -> str:
    if result is None:
        return "drops it"
    return "passes it" if result == url else f"makes it {result}"
