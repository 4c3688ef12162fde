"""Which cookies of a page's scripts come back, by the rules of RFC 6265."""

from __future__ import annotations

from scrapy import Request

from tests.cases import cases
from webcrawl.crawler.cookies import returned

PAGE = "http://www.shop.example/folder/page"


@cases(
    ("lines", "target", "names"),
    [
        (["a=b"], PAGE, ["a"]),
        (["a=b"], "http://www.shop.example/other", []),  # the path is /folder without one
        (["a=b; path=/"], "http://www.shop.example/other", ["a"]),
        (["a=b; path=/"], "http://shop.example/", []),
        (["a=b; path=/; domain=shop.example"], "http://blog.shop.example/", ["a"]),
        (["a=b; domain=example.com"], PAGE, []),
        (["a=b; domain=example"], PAGE, []),
        (["a=b; domain=blog.shop.example"], PAGE, []),
        (["a=b", "a=; max-age=0"], PAGE, []),
        (["a=; expires=Thu, 01 Jan 1970 00:00:00 GMT", "a=b"], PAGE, ["a"]),
        (["a=b", "c=sent"], PAGE, ["a"]),
        (["c=other"], PAGE, ["c"]),
        (["a=" + "b" * 5000], PAGE, []),
        (["a=b; secure"], PAGE, []),
    ],
)
def test_cookies_that_come_back(lines: list[str], target: str, names: list[str]) -> None:
    request = Request(PAGE, headers={"Cookie": "c=sent; d=e"})
    assert [cookie["name"] for cookie in returned(lines, request, Request(target))] == names


def test_a_cookie_keeps_its_path_and_domain() -> None:
    lines = ["a=b", "c=d; Path=/; Domain=shop.example"]
    assert returned(lines, Request(PAGE), Request(PAGE)) == [
        {"name": "a", "value": "b", "path": "/folder", "secure": False},
        {"name": "c", "value": "d", "path": "/", "secure": False, "domain": ".shop.example"},
    ]
