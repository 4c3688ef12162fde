"""A request's way into a queue entry and out again: nothing is lost, nothing is executed, plain ones stay small."""

from __future__ import annotations

import ast
import datetime as dt
import decimal
import io
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import example, given, strategies as st
from scrapy import FormRequest, Request, Spider
from scrapy.http import JsonRequest
from scrapy.settings import Settings

from tests.crawls import CHECKOUT
from webcrawl.errors import InvalidURL, StoreError
from webcrawl.frontier import LeasedURL
from webcrawl.requests import Unserializable, pack, to_candidate, to_request, unpack
from webcrawl.urls import Canonicalizer

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
    """A class of the project's, with an attribute of its own."""

    attributes = (*Request.attributes, "wish")

    def __init__(self, *args: Any, wish: str = "", **kwargs: Any) -> None:
        self.wish = wish
        super().__init__(*args, **kwargs)


spider = MySpider()


def journey(request: Request) -> Request:
    """What a worker gets of a request that was given to the frontier."""
    candidate = to_candidate(request, spider, canonicalizer)
    return to_request(LeasedURL.decode(0, candidate.host, candidate.entry()), spider)


def described(request: Request) -> dict[str, Any]:
    """Everything a request says."""
    facts = {name: getattr(request, name) for name in request.attributes}
    facts["meta"] = {"depth": 0, **request.meta}
    return {"class": type(request), **facts, "headers": dict(request.headers)}


def typed(value: Any) -> Any:
    """A value that is equal only to what has the same types all through: 1 is neither 1.0 nor True."""
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
    | st.integers(-(2**63), 2**64 - 1)
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
@example(Request(URL, meta={"mixed": [(1, {"a": {frozenset([b"x"])}}), decimal.Decimal("1.10")]}))
def test_any_request_survives(request: Request) -> None:
    back = journey(request)
    assert described(back) == described(request)
    assert typed(back.cb_kwargs) == typed(request.cb_kwargs)


@given(st.builds(OwnRequest, st.just(URL), wish=st.text(), **common, **bodies))
def test_a_class_of_the_project_survives(request: OwnRequest) -> None:
    assert described(journey(request)) == described(request)


@given(st.dictionaries(names, st.text(max_size=9), min_size=1, max_size=3), st.sampled_from(["GET", "POST"]))
def test_a_form_survives(fields: dict[str, str], method: str) -> None:
    request = FormRequest(URL, formdata=fields, method=method)
    assert described(journey(request)) == described(request)


def test_a_json_request_survives() -> None:
    request = JsonRequest(URL, data={"a": [1, "ü"]}, dumps_kwargs={"sort_keys": True}, priority=2)
    assert described(journey(request)) == described(request)
    assert described(journey(request))["dumps_kwargs"]["sort_keys"] is True


def test_a_url_is_fetched_as_it_was_asked_for_when_it_says_so() -> None:
    url = "https://example.org/%7euser/../a b?q='x'"
    assert journey(Request(url)).url == "https://example.org/a%20b?q=%27x%27"
    verbatim = Request(url, meta={"verbatim_url": True})
    assert journey(verbatim).url == verbatim.url
    assert journey(verbatim).meta["verbatim_url"] is True


def test_depth_and_referrer_survive() -> None:
    for referrer in ("https://example.org/", "http://example.com/there"):
        meta = {"depth": 7, "referrer": referrer}
        assert journey(Request(URL, meta=meta)).meta == meta
        assert journey(Request(URL, body="x", meta=meta)).meta == meta


def test_a_time_limit_of_its_own_survives_and_the_usual_one_is_left_out() -> None:
    """Scrapy writes the usual one into every request it sends, and copies are made of those."""
    with_settings = MySpider()
    with_settings.settings = Settings({"DOWNLOAD_TIMEOUT": 60})
    for seconds, size in ((60, 0), (5, 1)):
        request = Request(URL, meta={"download_timeout": seconds, "download_latency": 0.1})
        candidate = to_candidate(request, with_settings, canonicalizer)
        assert bool(candidate.extra) == bool(size)
        back = to_request(LeasedURL.decode(0, candidate.host, candidate.entry()), with_settings)
        assert back.meta.get("download_timeout", 60) == seconds


@pytest.mark.parametrize(
    ("request_", "most"),
    [
        # 4 bytes of state, 1 of array, 1 of depth, 1 of the path's length
        (Request("https://example.org/" + 20 * "a"), 21 + 7),
        (Request("https://example.org/" + 20 * "a", priority=3, meta={"depth": 9}), 21 + 7),
        (Request(URL, meta={"referrer": "https://example.org/from/here"}), 14 + 7 + 12),
        (Request(URL, callback=spider.parse_item), 14 + 7 + 26),
        (Request(URL, meta={"item": 1}), 14 + 7 + 18),
    ],
)
def test_plain_requests_stay_small(request_: Request, most: int) -> None:
    assert len(to_candidate(request_, spider, canonicalizer).entry()) <= most


def test_what_makes_a_fingerprint() -> None:
    def fingerprint(**options: Any) -> int | None:
        return to_candidate(Request(URL, **options), spider, canonicalizer).fingerprint

    assert fingerprint() == fingerprint(meta={"a": 1}, headers={"A": "b"}, priority=4)
    assert len({fingerprint(), fingerprint(method="POST"), fingerprint(method="POST", body="a")}) == 3
    assert fingerprint(dont_filter=True) is None


class Odd:
    """Nothing that anybody could send."""


@pytest.mark.parametrize(
    "options",
    [
        {"callback": lambda response: None},
        {"callback": print},
        {"errback": lambda failure: None},
        {"meta": {"file": io.BytesIO()}},
        {"meta": {"deep": [{"a": (Odd(),)}]}},
        {"cb_kwargs": {"item": Odd()}},
        {"cb_kwargs": {"number": 2**64}},
        {"meta": {"text": "\ud800"}},
        {"meta": {"class": Odd}},
        {"meta": {"sub": type("Text", (str,), {})("a")}},
    ],
)
def test_what_cannot_leave_the_process_says_so(options: dict[str, Any]) -> None:
    with pytest.raises(Unserializable):
        to_candidate(Request(URL, **options), spider, canonicalizer)


def test_a_loop_says_so() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(Unserializable):
        pack(loop)


@pytest.mark.parametrize("url", ["ftp://example.org/", "data:,x", "s3://a/b"])
def test_urls_that_cannot_be_crawled(url: str) -> None:
    with pytest.raises(InvalidURL):
        to_candidate(Request(url), spider, canonicalizer)


# --- bytes from a server that others can write to ---


def leased(extra: bytes) -> LeasedURL:
    return LeasedURL(0, "https://example.org", "/", 3, 0, 0, 0, None, extra)


@given(st.binary(max_size=60) | values.map(pack) | st.dictionaries(names, values, max_size=4).map(pack))
@example(msgpack.packb({"meta": [1]}))
@example(msgpack.packb({"headers": 5}))
@example(msgpack.packb({"url": "no URL"}))
@example(msgpack.packb({"body": [1]}))
@example(msgpack.packb({b"_class": b"x"}))
@example(msgpack.packb(msgpack.ExtType(99, b"")))
@example(msgpack.packb(msgpack.ExtType(2, msgpack.packb([[]]))))
@example(msgpack.packb(msgpack.ExtType(4, msgpack.packb("yesterday"))))
@example(b"\xdd\xff\xff\xff\xff")
@example(b"\x91" * 100_000)
def test_damaged_bytes_give_a_request_or_an_error_of_ours(extra: bytes) -> None:
    try:
        request = to_request(leased(extra), spider)
    except StoreError:
        return
    assert type(request) is Request


def test_tuples_within_tuples_do_not_go_too_deep() -> None:
    """The parser is written in C: without a limit of ours a few kilobytes would end the process."""
    data: bytes = msgpack.packb([])
    value: tuple[Any, ...] = ()
    for depth in range(5_000):
        data, value = msgpack.packb(msgpack.ExtType(1, data)), (value,)
        if depth == 45:
            assert unpack(pack(value)) == value
    with pytest.raises(StoreError):
        unpack(data)
    with pytest.raises(Unserializable):
        pack(value)


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "builtins.eval",
        "subprocess.Popen",
        "scrapy.Spider",
        "scrapy.http.Response",
        "scrapy",
        "",
        "..",
        "tests.unit.test_requests.Odd",
    ],
)
def test_what_is_no_request_class_is_not_called(name: str) -> None:
    with pytest.raises(StoreError, match="no Request class"):
        to_request(leased(pack({"_class": name})), spider)


@pytest.mark.parametrize("name", [5, None, ["os.system"], {"a": 1}, b"scrapy.FormRequest"])
def test_a_class_must_be_a_name(name: Any) -> None:
    with pytest.raises(StoreError):
        to_request(leased(pack({"_class": name})), spider)


@pytest.mark.parametrize("name", ["nothing", "name", "touched", "__class__", "__init__", "settings", 5, [1]])
@pytest.mark.parametrize("role", ["callback", "errback"])
def test_only_methods_of_the_spider_are_called_back(role: str, name: Any) -> None:
    if name == "__init__":  # a method like any other; Scrapy would let it pass too
        return
    with pytest.raises(StoreError):
        to_request(leased(pack({role: name})), spider)


def test_no_bytes_import_a_module(tmp_path: Path) -> None:
    """Not even one that has a Request class in it: what its import does is not for others to start."""
    (tmp_path / "trap.py").write_text(
        "print('sprung')\nfrom scrapy import Request\nclass Trap(Request): pass\n"
    )
    program = """
        import sys
        from scrapy import Spider
        from webcrawl.errors import StoreError
        from webcrawl.frontier import LeasedURL
        from webcrawl.requests import pack, to_request
        before = set(sys.modules)
        for name in ("trap.Trap", "turtle.Turtle", "antigravity.x", "tests.trap.Trap"):
            extra = pack({"_class": name})
            try:
                to_request(LeasedURL(0, "http://a", "/", 3, 0, 0, 0, None, extra), Spider("a"))
            except StoreError as error:
                assert name in str(error)
            else:
                raise AssertionError(name)
        assert not {"trap", "turtle", "antigravity"} & set(sys.modules), "imported"
        assert set(sys.modules) == before
    """
    words = [sys.executable, "-c", textwrap.dedent(program)]
    environment = {"PYTHONPATH": f"{tmp_path}:{CHECKOUT}", "PATH": ""}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_nothing_of_ours_imports_a_pickler() -> None:
    """Whoever can write to the engine or a store would otherwise run code in every worker."""
    forbidden = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
    forbidden |= {"joblib", "scrapy_redis.picklecompat"}
    checked = 0
    for package in ("webcrawl", "spiders", "middlewares", "pipelines", "settings"):
        for path in (CHECKOUT / package).rglob("*.py"):
            checked += 1
            found = imported(ast.parse(path.read_text()))
            assert not found & forbidden, path
    assert checked > 40


def imported(tree: ast.AST) -> set[str]:
    """The modules that a program imports: their full names, and their top-level packages."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names |= {alias.name for alias in node.names}
            case ast.ImportFrom(module=str(module)):
                names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return names | {name.partition(".")[0] for name in names}
