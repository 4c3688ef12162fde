"""Converts Scrapy requests to queue entries and back, as MessagePack, never as pickle."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from scrapy import Request, Spider

from webcrawl.config import read
from webcrawl.crawler.scheduling.meta import NOT_STORED
from webcrawl.crawler.scheduling.values import pack, unpack
from webcrawl.errors import StoreError, Unserializable
from webcrawl.frontier import Candidate, LeasedURL, level_of_priority, priority_of_level
from webcrawl.policies.priorities import Prioritizer, Prospect
from webcrawl.policies.traffic import CLASSES, COVERAGE_GET
from webcrawl.urls.canonical import Canonicalizer, normalize, split

SITEMAP = "sitemap"
"""Request.meta key of a URL that robots.txt, a sitemap index or a seed names as a sitemap."""

OFFSITE = "offsite_hops"
"""Request.meta key of a URL outside the scope: the number of links in a row that led to it from within."""

DUST_TRIAL = "dust_trial"
"""Request.meta key of a URL that a DUST rule would make simpler, fetched to test the rule."""

RESOURCE = "page_resource"
"""Request.meta key of a resource: the number of resources on the way to it from the page, itself included."""

QUEUED_AT = "queued_at"
"""Request.meta key of the Unix time at which a URL was first queued."""

STORED_REQUEST = "stored_request"
"""Request.meta key of the `extra` of the queue entry of a request that is not plain, with RECRAWL."""

FETCH_CLASS = "fetch_class"
"""Request.meta key of what a fetch is for (webcrawl.policies.traffic)."""

_NOT_KEPT = frozenset({*NOT_STORED, QUEUED_AT, STORED_REQUEST, FETCH_CLASS})
_PLAIN_META = frozenset({*_NOT_KEPT, "is_start_request", "referrer"})
"""Keys of Request.meta that a plain request may have."""

_FRAGMENT = "fragment"
"""Key of a stored request whose URL has a fragment, which the entry's URL lacks."""

_TARGET = re.compile(r"[^:]*:[/\\]*[^/\\?#]*(.*)", re.DOTALL)


def to_candidate(
    request: Request, spider: Spider, canonicalizer: Canonicalizer, level: int | None = None
) -> Candidate:
    """Returns the queue entry of a request; raises InvalidURL, or Unserializable if it cannot be stored.

    `level`: the result of `level_of`; by default the level of its priority.
    """
    url = normalize(request.url)
    host, path = split(url)
    verbatim = bool(request.meta.get("verbatim_url"))
    if verbatim:
        url = host + _target(request.url)
    fingerprint = canonicalizer.request_fingerprint(request.method, url, request.body, verbatim=verbatim)
    extra = None if is_plain(request, spider) else pack(_record(request, spider, url))
    return Candidate(
        host,
        path,
        fingerprint,
        level_of_priority(request.priority) if level is None else level,
        _depth(request),
        referrer_of(request.meta),
        extra,
        anyway=request.dont_filter,
        is_fixed=extra is None and bool(request.priority),
        fetch_class=_class_of(request),
    )


def _class_of(request: Request) -> str:
    """Returns what a fetch is for: a target of a redirect has the class of the URL that redirects to it."""
    known = request.meta.get(FETCH_CLASS)
    return known if known in CLASSES and request.meta.get("redirect_times") else COVERAGE_GET


def _depth(request: Request) -> int:
    depth = request.meta.get("depth", 0)
    return min(max(depth, 0), 2**31) if isinstance(depth, int) else 0


def referrer_of(meta: Mapping[str, Any]) -> str | None:
    """Returns the page that links to a request with this meta; `meta["referrer"]` may also be a user's own data."""
    referrer = meta.get("referrer")
    return referrer if isinstance(referrer, str) and referrer.isprintable() else None


def is_plain(request: Request, spider: Spider) -> bool:
    """Whether host, path, priority, depth and referrer describe a request completely.

    A plain entry of depth 0 stands for a start request, to which Scrapy gives no depth. Other requests of depth 0, from
    `depth_reset`, are not plain.
    """
    meta = request.meta
    return (
        type(request) is Request
        and request.method == "GET"
        and request.encoding == "utf-8"
        and not (request.callback or request.body or request.headers or request.cookies or request.flags)
        and not (request.cb_kwargs or request.dont_filter)
        and priority_of_level(level_of_priority(request.priority)) == request.priority
        and request.errback in (None, getattr(spider, "errback", None))
        and ("referrer" not in meta or meta["referrer"] is referrer_of(meta))
        and "#" not in request.url
        and meta.get("is_start_request", "depth" not in meta) is (not meta.get("depth"))
        and (meta.keys() <= _PLAIN_META or _own_meta(request, spider).keys() <= _PLAIN_META)
    )


def level_of(request: Request, prioritizer: Prioritizer) -> int:
    """Returns the level of a request by its priority, or by its weight without a priority. Raises InvalidURL."""
    if request.priority or not prioritizer.weighs_requests:
        return level_of_priority(request.priority)
    url = normalize(request.url)
    return prioritizer.level_of_request(
        Prospect(url, split(url)[1], _depth(request), referrer_of(request.meta) or "", time.time())
    )


def link_extra(spider: Spider, meta: dict[str, Any]) -> bytes:
    """Returns the `extra` of the queue entry of a link whose request has this meta."""
    return _extra(spider, {"meta": meta})


def resource_extra(spider: Spider, hops: int) -> bytes:
    """Returns the `extra` of the queue entry of a resource; `hops`: the resources on the way from its page."""
    return _extra(spider, {"meta": {RESOURCE: hops}, "callback": "parse_resource"})


def _extra(spider: Spider, record: dict[str, Any]) -> bytes:
    return pack(record | {"errback": "errback"} if hasattr(spider, "errback") else record)


def to_request(url: LeasedURL, spider: Spider) -> Request:
    """Returns the request of a leased URL.

    Raises StoreError if its entry names an unknown method or class, or if the class cannot make the request again.
    """
    meta: dict[str, Any] = {"depth": url.depth, FETCH_CLASS: url.fetch_class}
    if url.referrer:
        meta["referrer"] = url.referrer
    if url.queued_at is not None:
        meta[QUEUED_AT] = url.queued_at
    if url.extra is None:
        if url.attempts:
            meta["retry_times"] = url.attempts
        if not url.depth:
            meta["is_start_request"] = True
        errback = getattr(spider, "errback", None)
        return Request(url.url, errback=errback, meta=meta, priority=priority_of_level(url.level))
    record = unpack(url.extra)
    try:
        kind = _request_class(record["_class"]) if "_class" in record else Request
        arguments = {"url": url.url + record.get(_FRAGMENT, "")}
        arguments |= {key: record[key] for key in record.keys() & set(kind.attributes)}
        arguments["meta"] = {**with_retries(record.get("meta", {}), url), **meta}
        for name in arguments.keys() & {"callback", "errback"}:
            arguments[name] = _method(spider, arguments[name])
        return kind(**arguments)
    except Exception as error:  # the constructor of a subclass may raise anything
        raise StoreError(f"the queued request for {url.url} cannot be restored: {error}") from error


def with_retries(meta: dict[str, Any], url: LeasedURL) -> dict[str, Any]:
    """Returns the meta of a stored request, with `retry_times` increased by the frontier's failed attempts.

    `retry_times` counts the retries of a request since it was first scheduled, by its callback and by the frontier.
    A URL that a date brings back begins at zero.
    """
    if not url.attempts and not url.dated:
        return meta
    before = 0 if url.dated else meta.get("retry_times", 0)
    return {**meta, "retry_times": before + url.attempts}


def _request_class(name: str) -> type[Request]:
    """Returns a loaded subclass of Request by its full name; stored data must not cause an import."""
    waiting = [Request]
    while waiting:
        kind = waiting.pop()
        if f"{kind.__module__}.{kind.__name__}" == name:
            return kind
        waiting += kind.__subclasses__()
    raise StoreError(f"{name!r} is not a Request class that the spider has imported")


def _method(spider: Spider, name: str) -> Callable[..., Any]:
    method = getattr(spider, name, None)
    if not inspect.ismethod(method):
        raise StoreError(f"the spider has no method {name!r}")
    return method


def _target(url: str) -> str:
    """Returns path, query and fragment of a URL, unchanged. The host is normalized, because turns are per host."""
    match = _TARGET.fullmatch(url)
    target = match[1] if match else ""
    return target if target.startswith("/") else f"/{target}"


def _own_meta(request: Request, spider: Spider) -> dict[str, Any]:
    """Returns the meta of a request without keys that the entry stores elsewhere or Scrapy sets for each request."""
    own = {key: value for key, value in request.meta.items() if key not in _NOT_KEPT}
    if "download_timeout" in own:
        usual = read(spider.settings, "DOWNLOAD_TIMEOUT") if hasattr(spider, "settings") else None
        if own["download_timeout"] == usual:
            del own["download_timeout"]
    return own


def _record(request: Request, spider: Spider, url: str) -> dict[str, Any]:
    """Returns `Request.to_dict` without defaults, empty values and values that the entry stores elsewhere."""
    try:
        record = request.to_dict(spider=spider)
    except ValueError as error:
        raise Unserializable(_not_a_method(request, spider)) from error
    except Exception as error:  # a subclass may read its attributes by code of its own
        raise Unserializable(f"{type(request).__name__}.to_dict fails: {error!r}") from error
    record["meta"] = _own_meta(request, spider)
    # the entry has the normalized URL
    del record["url"]
    if request.meta.get("verbatim_url"):
        record["url"] = url
    elif "#" in request.url:
        record[_FRAGMENT] = request.url[request.url.index("#") :]
    # a subclass may have other defaults
    kept = {"url", "method", "_class", "dont_filter"} if "_class" in record else {"url"}
    slim = {key: value for key, value in record.items() if value or key in kept}
    if "_class" not in slim and slim["method"] == "GET":
        del slim["method"]
    if slim.get("encoding") == "utf-8":
        del slim["encoding"]
    return slim


def _not_a_method(request: Request, spider: Spider) -> str:
    for role, function in (("callback", request.callback), ("errback", request.errback)):
        if function is not None and getattr(function, "__self__", None) is not spider:
            return (
                f"{role} is {getattr(function, '__qualname__', repr(function))}: use a method of the spider"
            )
    return "callback or errback is not an attribute of the spider: use a method of the spider"
