"""Requests as queue entries: every attribute survives, and plain requests stay small."""

from __future__ import annotations

import datetime as dt
import decimal
import io
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest
from scrapy.settings import Settings

from tests.cases import cases
from webcrawl.config.rules import LevelRule
from webcrawl.crawler.scheduling.requests import level_of, to_candidate, to_request
from webcrawl.crawler.scheduling.values import pack
from webcrawl.errors import InvalidURL, Unserializable
from webcrawl.frontier import Candidate, LeasedURL
from webcrawl.policies.priorities import Prioritizer, UrlLevels
from webcrawl.urls.canonical import Canonicalizer

URL = "https://example.org/a/b.html?x=1"
canonicalizer = Canonicalizer()


class MySpider(Spider):
    name = "mine"
    seen: list[Any] = []

    @property
    def touched(self) -> None:
        self.seen.append("a property")

    def parse_item(self, response: object) -> None: ...

    def failed(self, failure: object) -> None: ...


class OwnRequest(Request):
    """A project's request class with an extra attribute."""

    attributes = (*Request.attributes, "wish")

    def __init__(self, *args: Any, wish: str = "", **kwargs: Any) -> None:
        self.wish = wish
        super().__init__(*args, **kwargs)


spider = MySpider()


def round_trip(request: Request) -> Request:
    """Encodes a request for the frontier and decodes it as a worker does."""
    candidate = to_candidate(request, spider, canonicalizer)
    return to_request(LeasedURL.decode(0, candidate.host, candidate.entry()), spider)


def attributes_of(request: Request) -> dict[str, Any]:
    """The class and all attributes of a request."""
    facts = {name: getattr(request, name) for name in request.attributes}
    facts["meta"] = {"depth": 0, "fetch_class": "coverage-get", **request.meta}
    facts["meta"].pop("is_start_request", None)
    return {"class": type(request), **facts, "headers": dict(request.headers)}


def typed(value: Any) -> Any:
    """A form of the value that compares types too: 1 equals neither 1.0 nor True."""
    match value:
        case dict():
            return dict, [(typed(key), typed(inner)) for key, inner in value.items()]
        case list() | tuple():
            return type(value), [typed(inner) for inner in value]
        case set() | frozenset():
            return type(value), sorted(repr(inner) for inner in value)
    return type(value), repr(value)


names = st.text("abcdefgh_", min_size=1, max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**90), 2**90)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.datetimes(timezones=st.none() | st.just(dt.UTC)).map(lambda moment: moment.replace(fold=0))
    | st.dates()
    | st.decimals(allow_nan=False)
)
hashables = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=4)
values = st.recursive(
    scalars | st.sets(hashables, max_size=3) | st.frozensets(hashables, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(hashables, inner, max_size=4)
    ),
    max_leaves=12,
)
header_values = st.text("aZ 09:;=ü", max_size=20) | st.binary(max_size=20)
common = {
    "method": st.sampled_from(["GET", "POST", "PUT", "HEAD", "PURGE"]),
    "headers": st.dictionaries(names, header_values | st.lists(header_values, max_size=3), max_size=3),
    "cookies": st.dictionaries(names, names, max_size=2)
    | st.lists(st.fixed_dictionaries({"name": names, "value": names, "path": names}), max_size=2),
    "meta": st.dictionaries(names, values, max_size=3),
    "cb_kwargs": st.dictionaries(names, values, max_size=3),
    "priority": st.integers(-100, 100),
    "dont_filter": st.booleans(),
    "flags": st.lists(names, max_size=2),
    "callback": st.none() | st.just(spider.parse_item),
    "errback": st.none() | st.just(spider.failed),
    "encoding": st.sampled_from(["utf-8", "latin-1"]),
}
bodies = {"body": st.binary(max_size=50)}


@given(st.builds(Request, st.just(URL), **common, **bodies))
@example(Request(URL, priority=1))
@example(Request(URL, priority=-50))
@example(Request(URL, meta={"mixed": [(1, {"a": {frozenset([b"x"])}}), decimal.Decimal("1.10")]}))
def test_any_request_is_restored(request: Request) -> None:
    back = round_trip(request)
    assert attributes_of(back) == attributes_of(request)
    assert typed(back.cb_kwargs) == typed(request.cb_kwargs)


@given(st.builds(OwnRequest, st.just(URL), wish=st.text(), **common, **bodies))
def test_custom_request_class_is_restored(request: OwnRequest) -> None:
    assert attributes_of(round_trip(request)) == attributes_of(request)


@given(st.dictionaries(names, st.text(max_size=9), min_size=1, max_size=3), st.sampled_from(["GET", "POST"]))
def test_form_request_is_restored(fields: dict[str, str], method: str) -> None:
    request = FormRequest(URL, formdata=fields, method=method)
    assert attributes_of(round_trip(request)) == attributes_of(request)


def test_json_request_is_restored() -> None:
    request = JsonRequest(URL, data={"a": [1, "ü"]}, dumps_kwargs={"sort_keys": True}, priority=2)
    assert attributes_of(round_trip(request)) == attributes_of(request)
    assert attributes_of(round_trip(request))["dumps_kwargs"]["sort_keys"] is True


def test_verbatim_url_is_kept() -> None:
    url = "https://example.org/%7euser/../a b?q='x'"
    assert round_trip(Request(url)).url == "https://example.org/a%20b?q=%27x%27"
    verbatim = Request(url, meta={"verbatim_url": True})
    assert round_trip(verbatim).url == verbatim.url
    assert round_trip(verbatim).meta["verbatim_url"] is True


@cases(
    ("url", "kept"),
    [
        ("HTTP://me:secret@EXAMPLE.org:80/%7e/../x?q='#a b", "http://example.org/%7e/../x?q='#a b"),
        ("http://example.org?", "http://example.org/?"),
        ("http://example.org", "http://example.org/"),
        ("http://example.org\\a?\\b", "http://example.org/\\a?\\b"),
        ("http://0x7f.1/a?b?c", "http://127.0.0.1/a?b?c"),
    ],
)
def test_host_of_a_verbatim_url_is_normalized(url: str, kept: str) -> None:
    """Path, query and fragment are kept, but the host must equal the leased one."""
    assert round_trip(Request(url, meta={"verbatim_url": True})).url == kept


@pytest.mark.parametrize("url", ["HTTP://me:secret@EXAMPLE.org:80/x", "http://example.org/y/../x"])
def test_url_of_a_request_with_a_callback_is_normalized(url: str) -> None:
    assert round_trip(Request(url, callback=spider.parse_item)).url == "http://example.org/x"


@pytest.mark.parametrize("options", [{}, {"callback": spider.parse_item}, {"meta": {"verbatim_url": True}}])
def test_a_fragment_is_kept_but_does_not_change_what_is_seen(options: dict[str, Any]) -> None:
    url = URL + "#!/part?2"
    assert round_trip(Request(url, **options)).url == url
    marks = {to_candidate(Request(each, **options), spider, canonicalizer).fingerprint for each in (URL, url)}
    # Scrapy compares verbatim URLs with their fragments
    assert len(marks) == (2 if options.get("meta") else 1)


def test_verbatim_urls_are_compared_as_they_are() -> None:
    def marks(*urls: str, **meta: bool) -> int:
        made = [to_candidate(Request(url, meta=dict(meta)), spider, canonicalizer) for url in urls]
        return len({candidate.fingerprint for candidate in made})

    spellings = "http://example.org/?b=1&a=2", "http://example.org/?a=2&b=1"
    assert marks(*spellings) == 1
    assert marks(*spellings, verbatim_url=True) == 2


@cases(
    ("meta", "starts"),
    [
        ({}, True),  # a start request before Scrapy's spider middlewares, which give it no depth
        ({"is_start_request": True}, True),
        ({"is_start_request": True, "depth": 0, "redirect_times": 1}, True),
        ({"is_start_request": True, "depth": 2}, True),  # a start request that a callback has yielded again
        ({"is_start_request": False}, False),
        ({"depth": 0}, False),  # by `depth_reset`
        ({"depth": 1}, False),
    ],
)
def test_start_requests_are_known(meta: dict[str, Any], starts: bool) -> None:
    assert bool(round_trip(Request(URL, meta=meta)).meta.get("is_start_request")) == starts


@cases(
    ("asked", "failed", "dated", "retries"),
    [
        (0, 0, False, None),
        (0, 2, False, 2),
        (2, 0, False, 2),
        (2, 1, False, 3),
        (2, 1, True, 1),
        (2, 0, True, 0),
    ],
)
def test_retries_of_the_callback_and_of_the_frontier_add_up(
    asked: int, failed: int, dated: bool, retries: int | None
) -> None:
    """`retry_times` is one count, as in Scrapy; a URL that comes again at a date begins anew."""
    meta = {"retry_times": asked} if asked else {}
    candidate = to_candidate(Request(URL, meta=meta, dont_filter=True), spider, canonicalizer)
    url = LeasedURL.decode(0, candidate.host, candidate.entry())
    leased = replace(url, attempts=failed, dated=dated)
    assert to_request(leased, spider).meta.get("retry_times") == retries


def test_a_subclass_of_str_becomes_a_str() -> None:
    """CrawlSpider puts the text of a link into meta, as lxml returns it."""
    text = type("Text", (str,), {})("first")
    meta = round_trip(Request(URL, meta={"link_text": text, "inner": [{text: text}]})).meta
    assert (meta["link_text"], meta["inner"]) == ("first", [{"first": "first"}])
    assert type(meta["link_text"]) is str


def test_depth_and_referrer_are_restored() -> None:
    for referrer in ("https://example.org/", "http://example.com/there"):
        meta = {"depth": 7, "referrer": referrer, "fetch_class": "coverage-get"}
        assert round_trip(Request(URL, meta=meta)).meta == meta
        assert round_trip(Request(URL, body="x", meta=meta)).meta == meta


def test_a_target_of_a_redirect_has_the_class_of_its_source() -> None:
    """A request that a callback makes with the meta of its page has the class of a new page."""
    for meta, fetch_class in (({"redirect_times": 1}, "update-chk"), ({}, "coverage-get")):
        request = Request(URL, meta={"fetch_class": "update-chk", **meta})
        assert to_candidate(request, spider, canonicalizer).fetch_class == fetch_class


def test_only_a_timeout_other_than_the_default_is_stored() -> None:
    """Scrapy writes the default into the meta of every sent request, and spiders copy requests."""
    with_settings = MySpider()
    with_settings.settings = Settings({"DOWNLOAD_TIMEOUT": 60})
    for seconds, size in ((60, 0), (5, 1)):
        request = Request(URL, meta={"download_timeout": seconds, "download_latency": 0.1})
        candidate = to_candidate(request, with_settings, canonicalizer)
        assert bool(candidate.extra) == bool(size)
        back = to_request(LeasedURL.decode(0, candidate.host, candidate.entry()), with_settings)
        assert back.meta.get("download_timeout", 60) == seconds


@cases(
    ("request_", "most"),
    [
        # 4 bytes of state, and 1 each for the array, the depth and the length of the path
        (Request("https://example.org/" + 20 * "a"), 21 + 7),
        (Request("https://example.org/" + 20 * "a", priority=3, meta={"depth": 9}), 21 + 9),
        (Request(URL, meta={"referrer": "https://example.org/from/here"}), 14 + 7 + 12),
        (Request(URL, callback=spider.parse_item), 14 + 7 + 26),
        (Request(URL, meta={"item": 1}), 14 + 7 + 18),
    ],
)
def test_plain_requests_stay_small(request_: Request, most: int) -> None:
    assert len(to_candidate(request_, spider, canonicalizer).entry()) <= most


def test_fingerprint_depends_on_url_method_and_body() -> None:
    def candidate(**options: Any) -> Candidate:
        return to_candidate(Request(URL, **options), spider, canonicalizer)

    def fingerprint(**options: Any) -> int | None:
        return candidate(**options).fingerprint

    assert fingerprint() == fingerprint(meta={"a": 1}, headers={"A": "b"}, priority=4)
    assert len({fingerprint(), fingerprint(method="POST"), fingerprint(method="POST", body="a")}) == 3
    # the URL counts as seen from then on, but is crawled even if seen before
    assert candidate(dont_filter=True).anyway and not candidate().anyway
    assert fingerprint(dont_filter=True) == fingerprint()


class Odd:
    """An object that cannot be serialized."""


@cases(
    "options",
    [
        {"callback": lambda response: None},
        {"callback": print},
        {"errback": lambda failure: None},
        {"meta": {"file": io.BytesIO()}},
        {"meta": {"deep": [{"a": (Odd(),)}]}},
        {"cb_kwargs": {"item": Odd()}},
        {"meta": {"text": "\ud800"}},
        {"meta": {"class": Odd}},
    ],
)
def test_unserializable_request_raises(options: dict[str, Any]) -> None:
    with pytest.raises(Unserializable):
        to_candidate(Request(URL, **options), spider, canonicalizer)


def test_cyclic_value_raises() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(Unserializable):
        pack(loop)


@pytest.mark.parametrize("url", ["wais://example.org/", "data:,x", "s3://a/b"])
def test_url_with_an_unsupported_scheme_raises(url: str) -> None:
    with pytest.raises(InvalidURL):
        to_candidate(Request(url), spider, canonicalizer)


def test_a_request_keeps_its_priority_and_only_one_without_is_weighed() -> None:
    chain = Prioritizer([], UrlLevels([LevelRule("/b", "+2"), LevelRule("/c", 0)]))
    levels = [level_of(Request(f"https://h.example{path}"), chain) for path in ("/a", "/b", "/c#b")]
    assert levels == [3, 5, 0]
    for priority in (-100, -4, -1, 1, 3, 7, 10**20):
        request = Request("https://h.example/b", priority=priority)
        assert level_of(request, chain) == to_candidate(request, spider, canonicalizer).level
    assert level_of(Request("https://h.example/b"), Prioritizer([])) == 3
    with pytest.raises(InvalidURL):
        level_of(Request("gopher://h.example/"), chain)


def test_a_weighed_request_is_stored_with_its_level() -> None:
    for request in (Request(URL), Request(URL, callback=spider.parse_item)):
        candidate = to_candidate(request, spider, canonicalizer, 5)
        leased = LeasedURL.decode(0, candidate.host, candidate.entry())
        assert leased.level == 5
        assert to_request(leased, spider).callback == request.callback
