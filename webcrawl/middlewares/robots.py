"""Obeys robots.txt (RFC 9309): disallowed URLs are not fetched, and Crawl-delay is kept."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from http import HTTPStatus

from cachetools import LRUCache
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import CannotResolveHostError, IgnoreRequest
from scrapy.http import Response
from xxhash import xxh3_128_digest

from webcrawl.config import read
from webcrawl.crawler.access import ROBOTS, host_of, is_question, tasks_of
from webcrawl.crawler.components import ResourceRules, RobotsArchiver
from webcrawl.crawler.errors import Postponed, RobotsUnreachable
from webcrawl.crawler.fetch import TRUNCATE, exchange_of
from webcrawl.crawler.pages.outlinks import MOST_HOPS, LinkSource, Outlinks
from webcrawl.crawler.responses import (
    BAD_CODING,
    LOST,
    TIMED_OUT,
    UNFINISHED,
    body_of,
    content_type,
    length_of,
    refusal_of,
)
from webcrawl.crawler.session import Session, SessionComponent
from webcrawl.documents.mime.sniff import sniff
from webcrawl.errors import InvalidURL, StoreError
from webcrawl.frontier.host_answers import store_robots, stored_robots
from webcrawl.hosts.duty_cycle import DutyCycle
from webcrawl.hosts.opt_outs import AGENTS, AI_TXT, TDMREP, has_files, opts_out, with_files
from webcrawl.hosts.robots import LARGE, RobotsCache, RobotsPolicy, robots_url
from webcrawl.urls.canonical import normalize, resolve_location, split, without_fragment

logger = logging.getLogger(__name__)

_MOST_BYTES = 500 * 1024 + 1
_MOST_REDIRECTS = 5
_MOST_CUT = 10_000
_MOST_SITEMAPS = 1_000
_RESOURCE_SECONDS = 10.0
_LARGE_SHARE = 0.2
"""The largest share of time for reading large robots.txt files; hosts with large files wait for each other."""


class RobotsMiddleware(SessionComponent, ResourceRules):
    """Looks up a policy in the cache of this process, then in the engine's shared cache, and then asks the host."""

    needs = "ROBOTSTXT_OBEY"

    def __init__(self, crawler: Crawler, session: Session) -> None:
        super().__init__(crawler, session)
        self._outlinks = Outlinks(crawler, session)
        self._agents = session.robots_agents
        self._costs = session.costs
        self._observed = session.observed
        self._cache = RobotsCache()
        self._unreachable = RobotsCache()
        self._cut: LRUCache[str, bytes] = LRUCache(_MOST_CUT)
        """URL -> digest of a robots.txt whose end was missing."""
        self._asking: dict[str, asyncio.Future[RobotsPolicy]] = {}
        self._large = DutyCycle(_LARGE_SHARE)
        self._heeds_opt_outs = read(crawler.settings, "AI_OPT_OUTS")
        self._follows_sitemaps = read(crawler.settings, "SITEMAPS_FROM_ROBOTS")
        self._unfollowed: set[str] = set()

    async def process_request(self, request: Request) -> None:
        if request.meta.get("dont_obey_robotstxt"):
            return
        host = host_of(request)
        policy = self._cache.get(host)
        if policy is None:
            observed = self._observed
            with (
                self._session.turns.aside(),
                observed.timed("robots", request.url) if observed else nullcontext(),
            ):
                policy = await self._policy(host)
        elif self._observed is not None:
            self._observed.robots_in_memory += 1
        if host in self._unfollowed:
            self._follow_sitemaps(host, policy)
        if self._session.turns.set_crawl_delay(host, policy.crawl_delay(self._agents.of(host))):
            tasks_of(self._crawler).worker.hosts.delay_changed(host)
        if not self._allows(host, policy, without_fragment(request.url)):
            if not is_question(request):
                tasks_of(self._crawler).count("robots_denied")
            raise IgnoreRequest("robots.txt disallows it")
        if self._heeds_opt_outs and opts_out(policy, without_fragment(request.url)):
            if not is_question(request):
                tasks_of(self._crawler).count("ai_denied")
            raise IgnoreRequest("the site disallows it to crawlers for AI")

    def _allows(self, host: str, policy: RobotsPolicy, url: str) -> bool:
        began = time.perf_counter()
        allowed = policy.allows(url, self._agents.of(host))
        self._costs.of(host).seconds += time.perf_counter() - began
        return allowed

    def is_asking(self, host: str) -> bool:
        return host in self._asking

    async def allows(self, url: str) -> bool:
        """Returns whether a rendered page may load a URL; raises as in ResourceRules when the crawl ends."""
        try:
            url = normalize(url)
        except InvalidURL:
            return False
        host = split(url)[0]
        policy = self._cache.get(host) or self._unreachable.get(host) or await self._policy_in_time(host)
        allowed = self._allows(host, policy, url)
        if not allowed:
            tasks_of(self._crawler).count("resources_denied")
        return allowed

    async def _policy_in_time(self, host: str) -> RobotsPolicy:
        """Returns the policy of a host of resources; after ten seconds, a policy that disallows all URLs."""
        try:
            async with asyncio.timeout(_RESOURCE_SECONDS):
                return await self._policy(host)
        except Postponed:
            raise
        except (TimeoutError, IgnoreRequest, CannotResolveHostError):
            policy = RobotsPolicy("disallow-all")
            self._unreachable.put(host, policy)
            return policy

    async def _policy(self, host: str) -> RobotsPolicy:
        """Returns the policy of a host, looked up once for all waiting requests; raises RobotsUnreachable."""
        asking = self._asking.get(host)
        if asking is None:
            asking = self._asking[host] = asyncio.ensure_future(self._ask(host))
            asking.add_done_callback(lambda done: self._answered(host, done))
        return await asyncio.shield(asking)

    def _answered(self, host: str, done: asyncio.Future[RobotsPolicy]) -> None:
        del self._asking[host]
        if not done.cancelled():
            done.exception()  # marks it as retrieved: all waiting requests may have been cancelled

    async def _ask(self, host: str) -> RobotsPolicy:
        connection = self._session.connection
        engine, keys = connection.engine, connection.keys
        try:
            known = await connection.retry_until_available(lambda: stored_robots(engine, keys, host))
        except StoreError as error:
            logger.warning("The stored robots.txt of %s cannot be read and is fetched again: %s", host, error)
            known = None
        if known is not None and (not self._heeds_opt_outs or has_files(known.policy)):
            policy = await self._prepared(host, known.policy)
            self._cache.put(host, policy, known.seconds)
        else:
            policy = await self._fetch(host)
            if self._heeds_opt_outs:
                policy = await self._prepared(host, with_files(policy, await self._opt_out_files(host)))
            await store_robots(engine, keys, host, policy)
            self._cache.put(host, policy)
        return self._note_sitemaps(host, policy)

    def _note_sitemaps(self, host: str, policy: RobotsPolicy) -> RobotsPolicy:
        if self._follows_sitemaps and policy.sitemaps:
            self._unfollowed.add(host)
        return policy

    def _follow_sitemaps(self, host: str, policy: RobotsPolicy) -> None:
        """Adds the sitemaps that a robots.txt names to the frontier, once the host has a page to fetch."""
        self._unfollowed.discard(host)
        urls = []
        for sitemap in policy.sitemaps[:_MOST_SITEMAPS]:
            with suppress(InvalidURL):
                urls.append(normalize(sitemap))
        url, scope = robots_url(host), self._session.scope.current
        # the number of hops to a host outside the scope is unknown, so its sitemaps are not followed
        hops = MOST_HOPS if scope is not None and not scope.allows(url) else 0
        self._outlinks.add(urls, LinkSource(url, 1, hops), sitemaps=True)

    async def _fetch(self, host: str) -> RobotsPolicy:
        url, via = robots_url(host), ""
        for hops in range(_MOST_REDIRECTS + 1):
            request = self._request(url, own=not hops)
            try:
                response = await self._crawler.engine.download_async(request)
            except (Postponed, RobotsUnreachable):
                raise
            except (IgnoreRequest, CannotResolveHostError) as error:
                if not hops:  # the page cannot be fetched either
                    raise
                raise _unreachable(url, f"{via} leads there, and {error}") from error
            except Exception as error:
                raise _unreachable(url, str(error)) from error
            await self._archive(request, response, via, hops)
            target = _redirect(response)
            if target is None:
                policy = await self._read(host, self._complete(response, url), url)
                if policy.verdict == "disallow-all":
                    raise _unreachable(url, refusal_of(response))
                return policy
            url, via = target, url
        # RFC 9309, 2.3.1.2: after five redirects, robots.txt may count as unavailable
        return RobotsPolicy.from_response(404, b"", url=url)

    def _complete(self, response: Response, url: str) -> Response:
        """Returns the response to read; raises RobotsUnreachable if a part is missing, which may disallow URLs.

        A file that ends early with the same bytes a second time has a wrong length, not a broken connection: it is read
        without its last line, unless that disallows something.
        """
        if not HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES:
            return response
        if TIMED_OUT in response.flags:
            raise _unreachable(url, "it did not arrive in time")
        if BAD_CODING in response.flags and not _is_text(response.body):
            raise _unreachable(url, "its Content-Encoding cannot be decoded")
        if LOST not in response.flags and UNFINISHED not in response.flags:
            return response
        digest = xxh3_128_digest(response.body)
        if not response.body or self._cut.get(url) != digest:
            self._cut[url] = digest
            raise _unreachable(url, "its end is missing")
        return response.replace(body=_certain_lines(response.body))

    async def _opt_out_files(self, host: str) -> dict[str, bytes]:
        """Fetches the files for crawlers for AI; one that is no answer of 200 in a known coding says nothing.

        Raises RobotsUnreachable if a part of one is missing.
        """
        bodies = {}
        for path in (AI_TXT, TDMREP) if host.startswith("http") else ():
            request = self._request(f"{host}{path}", own=False)
            try:
                response = await self._crawler.engine.download_async(request)
            except (IgnoreRequest, CannotResolveHostError):
                # the page cannot be fetched either
                raise
            except Exception as error:
                logger.info("%s cannot be fetched: %s", request.url, error)
            else:
                await self._archive(request, response, "", 0)
                is_read = BAD_CODING not in response.flags or _is_text(response.body)
                if response.status == 200 and is_read:
                    bodies[path] = self._complete(response, request.url).body
        return bodies

    async def _archive(self, request: Request, response: Response, via: str, hops: int) -> None:
        """Archives a fetch before its rules are used, so that a crash loses no record of rules that pages obeyed."""
        archiver, exchange = self._session.components.get(RobotsArchiver), exchange_of(request)
        if archiver is None or exchange is None:
            return
        media_type = sniff(content_type(response.headers), body_of(response), exchange.url)
        facts = {"via": via} if via else {}
        # the letters of Heritrix: a prerequisite, then redirects
        facts |= {"hopsFromSeed": "P" + "R" * hops, "mimeType": media_type.mime_type}
        if (latency := request.meta.get("download_latency")) is not None:
            facts["firstByteMs"] = f"{latency * 1000:.0f}"
        await archiver.archive_robotstxt(exchange, facts)

    async def _read(self, host: str, response: Response, url: str) -> RobotsPolicy:
        if length_of(response) <= LARGE:
            return RobotsPolicy.from_response(response.status, response.body, url=url)

        def read() -> RobotsPolicy:
            policy = RobotsPolicy.from_response(response.status, response.body, url=url)
            return policy.prepare(self._agents.of(host)) if policy.is_large else policy

        return await self._in_thread(host, read)

    async def _prepared(self, host: str, policy: RobotsPolicy) -> RobotsPolicy:
        if policy.is_large:
            groups = AGENTS if self._heeds_opt_outs else ()
            return await self._in_thread(host, partial(policy.prepare, self._agents.of(host), groups))
        return policy

    async def _in_thread(self, host: str, work: Callable[[], RobotsPolicy]) -> RobotsPolicy:
        """Runs the work on a large robots.txt in a thread; large files take turns."""
        if self._large.is_taken:
            self._costs.of(host).waits += 1
        async with self._large.turn():
            policy, seconds = await asyncio.to_thread(_timed, work)
        self._costs.of(host).seconds += seconds
        return policy

    @staticmethod
    def _request(url: str, *, own: bool) -> Request:
        return Request(
            url,
            meta={
                ROBOTS: own,
                "dont_obey_robotstxt": True,
                "dont_redirect": True,
                "allow_offsite": True,
                "download_fail_on_dataloss": False,
                TRUNCATE: _MOST_BYTES,
            },
        )


def _timed(work: Callable[[], RobotsPolicy]) -> tuple[RobotsPolicy, float]:
    """Returns the result of `work`, and its processor seconds in this thread."""
    began = time.thread_time()
    return work(), time.thread_time() - began


def _is_text(body: bytes) -> bool:
    """Returns whether a body that is not in its Content-Encoding is text all the same."""
    try:
        return "\0" not in body.decode()
    except UnicodeDecodeError:
        return False


def _certain_lines(body: bytes) -> bytes:
    """Returns the lines of a file that ends early; the last may be part of a line that allows less or names others."""
    end = max(body.rfind(b"\n"), body.rfind(b"\r")) + 1
    return body if body[end:].lstrip().lower().startswith(b"disallow") else body[:end]


def _unreachable(url: str, why: str) -> RobotsUnreachable:
    logger.info("%s: %s", url, why)
    return RobotsUnreachable(f"{url} is unreachable: {why}")


def _redirect(response: Response) -> str | None:
    location = response.headers.get("Location")
    if not 300 <= response.status < 400 or location is None:
        return None
    try:
        return resolve_location(location, response.url)
    except InvalidURL:
        return None
