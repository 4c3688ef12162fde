"""Hostile queue entries cannot run code, import modules or crash the process."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import example, given, strategies as st
from scrapy import Request, Spider

from tests.cases import cases
from tests.crawls import CHECKOUT
from webcrawl.crawler.scheduling.requests import to_request
from webcrawl.crawler.scheduling.values import pack, unpack
from webcrawl.errors import StoreError, Unserializable
from webcrawl.frontier import LeasedURL


class MySpider(Spider):
    name = "mine"
    seen: list[Any] = []

    @property
    def touched(self) -> None:
        self.seen.append("a property")


spider = MySpider()
names = st.text("abcdefgh_", min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(max_size=9) | st.binary(max_size=9) | st.dates() | st.decimals(),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.dictionaries(names, inner, max_size=4),
)


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
def test_any_bytes_give_a_request_or_a_store_error(extra: bytes) -> None:
    try:
        request = to_request(leased(extra), spider)
    except StoreError:
        return
    assert type(request) is Request


def test_deeply_nested_tuples_are_rejected() -> None:
    """Without our limit a few kilobytes would overflow the stack of the C parser."""
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


@cases(
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
        "tests.unit.crawler.scheduling.test_requests_hostile.MySpider",
    ],
)
def test_class_that_is_not_a_request_is_rejected(name: str) -> None:
    with pytest.raises(StoreError, match="not a Request class"):
        to_request(leased(pack({"_class": name})), spider)


@cases("name", [5, None, ["os.system"], {"a": 1}, b"scrapy.FormRequest"])
def test_class_that_is_not_a_string_is_rejected(name: Any) -> None:
    with pytest.raises(StoreError):
        to_request(leased(pack({"_class": name})), spider)


@cases("name", ["nothing", "name", "touched", "__class__", "__init__", "settings", 5, [1]])
@cases("role", ["callback", "errback"])
def test_callback_that_is_not_a_method_of_the_spider_is_rejected(role: str, name: Any) -> None:
    if name == "__init__":  # a method like any other; Scrapy accepts it too
        return
    with pytest.raises(StoreError):
        to_request(leased(pack({role: name})), spider)


def test_class_name_imports_no_module(tmp_path: Path) -> None:
    """Not even a module with a Request class, because importing it runs its code."""
    (tmp_path / "trap.py").write_text(
        "print('sprung')\nfrom scrapy import Request\nclass Trap(Request): pass\n"
    )
    program = """
        import sys
        from scrapy import Spider
        from webcrawl.errors import StoreError
        from webcrawl.frontier import Candidate, LeasedURL
        from webcrawl.crawler.scheduling.requests import to_request
        from webcrawl.crawler.scheduling.values import pack
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


def test_no_module_imports_pickle_or_similar() -> None:
    """Otherwise write access to the engine or a store would allow code execution in every worker."""
    forbidden = {"pickle", "_pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
    forbidden |= {"joblib", "scrapy_redis.picklecompat"}
    checked = 0
    for package in ("webcrawl", "spiders", "middlewares", "pipelines", "settings"):
        for path in (CHECKOUT / package).rglob("*.py"):
            checked += 1
            text = path.read_text()
            if any(name in text for name in forbidden):  # to parse all takes seconds
                assert not imported(ast.parse(text)) & forbidden, path
    assert checked > 40


def imported(tree: ast.AST) -> set[str]:
    """The modules that a program imports: full names and top-level packages."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names |= {alias.name for alias in node.names}
            case ast.ImportFrom(module=str(module)):
                names |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return names | {name.partition(".")[0] for name in names}
