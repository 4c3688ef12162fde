"""Converts Scrapy requests to queue entries and back, as MessagePack, never as pickle."""

from __future__ import annotations

import datetime
import decimal
import inspect
import re
from collections.abc import Callable
from typing import Any

import msgpack
from scrapy import Request, Spider

from webcrawl.config import read
from webcrawl.errors import StoreError, Unserializable
from webcrawl.frontier import Candidate, LeasedURL, level_of_priority, priority_of_level
from webcrawl.urls.canonical import Canonicalizer, normalize, split

SITEMAP = "sitemap"
"""Request.meta key of a URL that robots.txt, a sitemap index or a seed names as a sitemap."""

RESOURCE = "page_resource"
"""Request.meta key of a URL that a page loads: how many resources lead to it from the page, itself included."""

_PASSING_META = frozenset({"depth", "download_latency", "download_slot", "is_start_request", "retry_times"})

_EXTENSIONS: dict[int, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    # code: type, to something MessagePack knows, back
    1: (tuple, list, tuple),
    2: (set, list, set),
    3: (frozenset, list, frozenset),
    4: (datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    5: (datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    6: (decimal.Decimal, str, decimal.Decimal),
}

_TARGET = re.compile(r"[^:]*:[/\\]*[^/\\?#]*([^#]*)(?:#.*)?", re.DOTALL)

_DEEPEST = 50
"""Levels of nested tuples and sets. The parser recurses on the C stack, which ends at about 200."""


def pack(value: Any) -> bytes:
    """MessagePack of plain data, tuples, sets, dates and decimals; raises Unserializable."""
    return _pack(value, 0)


def unpack(data: bytes) -> Any:
    """The reverse of `pack`; raises StoreError when the data is damaged."""
    try:
        return _unpack(data, 0)
    except Exception as error:
        raise StoreError(f"a request in the frontier cannot be read: {error}") from error


def to_candidate(
    request: Request, spider: Spider, canonicalizer: Canonicalizer, level: int | None = None
) -> Candidate:
    """The queue entry of a request; raises InvalidURL, or Unserializable when it cannot be stored."""
    url = normalize(request.url)
    host, path = split(url)
    if verbatim := request.meta.get("verbatim_url"):
        url = host + _target(request.url)
    fingerprint = canonicalizer.request_fingerprint(request.method, url, request.body)
    extra = None if is_plain(request, spider) and not verbatim else pack(_record(request, spider, url))
    return Candidate(
        host,
        path,
        fingerprint,
        level_of_priority(request.priority) if level is None else level,
        _depth(request),
        _referrer(request),
        extra,
        anyway=request.dont_filter,
    )


def _depth(request: Request) -> int:
    depth = request.meta.get("depth", 0)
    return min(max(depth, 0), 2**31) if isinstance(depth, int) else 0


def _referrer(request: Request) -> str | None:
    """The page that links to a request; `meta["referrer"]` may also be a user's own data."""
    referrer = request.meta.get("referrer")
    return referrer if isinstance(referrer, str) and referrer.isprintable() else None


def is_plain(request: Request, spider: Spider) -> bool:
    """Whether host, path, priority, depth and referrer describe a request completely."""
    return (
        type(request) is Request
        and request.method == "GET"
        and request.encoding == "utf-8"
        and not (request.callback or request.body or request.headers or request.cookies or request.flags)
        and not (request.cb_kwargs or request.dont_filter)
        and priority_of_level(level_of_priority(request.priority)) == request.priority
        and request.errback in (None, getattr(spider, "errback", None))
        and request.meta.get("referrer") == _referrer(request)
        and not (_own_meta(request, spider).keys() - {"referrer"})
    )


def sitemap_extra(spider: Spider) -> bytes:
    """The `extra` of the queue entry of a sitemap."""
    record: dict[str, Any] = {"meta": {SITEMAP: True}}
    return pack(record | {"errback": "errback"} if hasattr(spider, "errback") else record)


def resource_extra(spider: Spider, hops: int) -> bytes:
    """The `extra` of the queue entry of a resource; `hops`: how many resources lead to it from its page."""
    record: dict[str, Any] = {"meta": {RESOURCE: hops}, "callback": "parse_resource"}
    return pack(record | {"errback": "errback"} if hasattr(spider, "errback") else record)


def to_request(url: LeasedURL, spider: Spider) -> Request:
    """The request of a leased URL; raises StoreError when its entry names a method or class that does not exist."""
    meta: dict[str, Any] = {"depth": url.depth}
    if url.attempts:
        meta["retry_times"] = url.attempts
    if url.referrer:
        meta["referrer"] = url.referrer
    if url.extra is None:
        errback = getattr(spider, "errback", None)
        return Request(url.url, errback=errback, meta=meta, priority=priority_of_level(url.level))
    record = unpack(url.extra)
    try:
        kind = _request_class(record["_class"]) if "_class" in record else Request
        arguments = {"url": url.url} | {key: record[key] for key in record.keys() & set(kind.attributes)}
        arguments["meta"] = {**record.get("meta", {}), **meta}
        for name in arguments.keys() & {"callback", "errback"}:
            arguments[name] = _method(spider, arguments[name])
        return kind(**arguments)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"the queued request for {url.url} cannot be restored: {error}") from error


def _request_class(name: str) -> type[Request]:
    """A loaded subclass of Request by its full name; stored data must not cause an import."""
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
    """Path and query of a URL, unchanged. The host is normalised, because turns are per host."""
    match = _TARGET.fullmatch(url)
    target = match[1] if match else ""
    return target if target.startswith("/") else f"/{target}"


def _own_meta(request: Request, spider: Spider) -> dict[str, Any]:
    """The meta of a request without the keys that the entry stores elsewhere or Scrapy sets for each request."""
    own = {key: value for key, value in request.meta.items() if key not in _PASSING_META}
    if "download_timeout" in own:
        usual = read(spider.settings, "DOWNLOAD_TIMEOUT") if hasattr(spider, "settings") else None
        if own["download_timeout"] == usual:
            del own["download_timeout"]
    return own


def _record(request: Request, spider: Spider, url: str) -> dict[str, Any]:
    """`Request.to_dict` without defaults, empty values and what the entry stores elsewhere."""
    try:
        record = request.to_dict(spider=spider)
    except ValueError as error:
        raise Unserializable(str(error)) from error
    record["meta"] = _own_meta(request, spider)
    # the entry has the normalised URL
    del record["url"]
    if request.meta.get("verbatim_url"):
        record["url"] = url
    # a subclass may have other defaults
    kept = {"url", "method", "_class", "dont_filter"} if "_class" in record else {"url"}
    slim = {key: value for key, value in record.items() if value or key in kept}
    if "_class" not in slim and slim["method"] == "GET":
        del slim["method"]
    if slim.get("encoding") == "utf-8":
        del slim["encoding"]
    return slim


def _pack(value: Any, depth: int) -> bytes:
    def encode(inner: Any) -> msgpack.ExtType:
        for code, (kind, plain, _) in _EXTENSIONS.items():
            if type(inner) is kind and depth < _DEEPEST:
                return msgpack.ExtType(code, _pack(plain(inner), depth + 1))
        raise TypeError(f"{type(inner).__name__} cannot be serialised" + " so deep" * (depth >= _DEEPEST))

    try:
        return bytes(msgpack.packb(value, default=encode, strict_types=True))
    except (TypeError, ValueError, OverflowError) as error:
        raise Unserializable(str(error)) from error


def _unpack(data: bytes, depth: int) -> Any:
    def decode(code: int, inner: bytes) -> Any:
        if code not in _EXTENSIONS or depth >= _DEEPEST:
            raise ValueError(f"extension type {code} at depth {depth}")
        return _EXTENSIONS[code][2](_unpack(inner, depth + 1))

    return msgpack.unpackb(data, ext_hook=decode, strict_map_key=False)
