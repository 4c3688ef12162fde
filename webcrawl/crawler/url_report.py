"""Whether and how early a crawl would fetch a URL, and why: the verdict of each of its rules."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from webcrawl.crawler.session import Session
from webcrawl.errors import AddressRefused, NameNotResolved
from webcrawl.frontier.dust import DustRules
from webcrawl.frontier.host_report import stored_robots
from webcrawl.hosts.robots import robots_url
from webcrawl.mining.weights_file import WeightsFile
from webcrawl.policies.pattern_records import HostPatterns
from webcrawl.policies.priorities import Prospect
from webcrawl.urls.canonical import hostname, normalize, port, split


@dataclass(frozen=True, slots=True)
class Link:
    """A URL as a link leads to it.

    page   the URL of the page with the link, for LINK_RULES and PatternRecord; empty if it does not matter
    depth  the number of links between a seed and the URL
    text   the text of the link, for ANCHOR_WORDS and MINED
    """

    url: str
    page: str = ""
    depth: int = 1
    text: str = ""


async def url_report(session: Session, link: Link, *, exists: bool) -> dict[str, Any]:
    """Returns the verdicts on a link by name; `exists`: the crawl was begun, and the scope of the session is its scope.

    Fetches nothing: the robots.txt verdict comes from the crawl's cached copy. The name of the host is resolved. Raises
    InvalidURL.
    """
    connection = session.connection
    url = normalize(link.url)
    host, path = split(url)
    patterns = HostPatterns.unpack(await connection.frontier.patterns(host) if exists else b"")
    source = split(normalize(link.page)) if link.page else ("", "")
    sunk = patterns.levels(path, tries=source[0] != host or patterns.tries(source[1]))
    simpler = await _simpler(session, host, path) if exists and link.depth > 0 else None
    if session.config.mined and (mined := WeightsFile.of(session.stores).changed()):
        session.scope.use_mined(mined)
    verdicts = session.scope.filters.verdicts(url)
    return {
        "url": url,
        "canonical": session.canonicalizer.canonical(url),
        "fingerprint": session.canonicalizer.fingerprint(url),
        "host": host,
        "path": path,
        "shard": connection.keys.shard(host),
        **({"DUST": f"fetches {simpler} instead"} if simpler else {}),
        "filters": {verdict.name: _word(url, verdict.url) for verdict in verdicts},
        **_link(session, url, link),
        **_rule(session, host),
        "robots": await _robots(session, host, url),
        "address": await _address(session, url),
        "seen": await _seen(session, host, url) if exists else "no: there is no such crawl",
        **_priority(session, url, link, sunk),
    }


async def _robots(session: Session, host: str, url: str) -> str:
    known = await stored_robots(session.connection.frontier, host)
    if known is None:
        return f"unknown: {robots_url(host)} was not fetched yet, or the copy has expired"
    agent = session.robots_agents.of(url)
    verdict = "allowed" if known.policy.allows(url, agent) else "disallowed"
    if delay := known.policy.crawl_delay(agent):
        verdict += f", Crawl-delay {delay:g}"
    line = known.policy.deciding_line(url, agent)
    return f'{verdict}; decided by "{line}"' if line else verdict


def _rule(session: Session, host: str) -> dict[str, str]:
    """The rule of POLITENESS_RULES for the host, if there is one."""
    rules = session.turns.rules
    return {"POLITENESS_RULES": str(rule)} if rules and (rule := rules.of(hostname(host))).match else {}


async def _simpler(session: Session, host: str, path: str) -> str | None:
    """The URL that the DUST rules of the host make of a link; None if it stays."""
    dust, connection = session.dust, session.connection
    dust.open(host, *await DustRules(connection.engine, connection.keys).of(host))
    found = dust.rewrite(host, path)
    return None if found is None else found.url


def _link(session: Session, url: str, link: Link) -> dict[str, str]:
    """The verdicts of OFFSITE_HOPS and LINK_RULES, where they have a say."""
    scope, found = session.scope, {}
    if scope.offsite(url, 1) is not None:
        found["OFFSITE_HOPS"] = "follows it from pages within the scope"
    if link.page:
        page = normalize(link.page)
        rules = [f'("{rule.page}", {_quoted(rule.links)})' for rule in scope.link_rules.matching(page)]
        links = scope.link_rules.on(page)
        verdict = "follows" if links is None or links.match(url) else "does not follow"
        verb = "match" if len(rules) > 1 else "matches"
        why = f"{', '.join(rules) or 'no rule'} {verb} the page"
        found["LINK_RULES"] = f"{verdict} it: {why}"
    return found


def _priority(session: Session, url: str, link: Link, sunk: int) -> dict[str, Any]:
    """The weight of a link with its terms, and its level. `sunk`: the levels by which its pattern has sunk."""
    page = normalize(link.page) if link.page else ""
    prospect = Prospect(url, split(url)[1], max(link.depth, 0), page, time.time(), link.text, sunk=sunk)
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
