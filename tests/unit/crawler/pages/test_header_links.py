"""Links in the headers Link and Refresh."""

from __future__ import annotations

from scrapy.http import HtmlResponse

from tests.cases import cases
from webcrawl.crawler.pages.response_links import followed_links

HOME = "https://site.example/folder/"


@cases(
    ("headers", "links"),
    [
        ({"Link": "</next?ä>; rel=next".encode("latin-1")}, ["https://site.example/next?%C3%A4"]),
        ({"Link": "</next?ä>; rel=next".encode()}, ["https://site.example/next?%C3%83%C2%A4"]),
        ({"Refresh": "0; url=page"}, [f"{HOME}page"]),
        ({"Refresh": "5;URL='/page?a=1#b'"}, ["https://site.example/page?a=1"]),
        ({"Refresh": "3,http://other.example/"}, ["http://other.example/"]),
        ({"Refresh": "60"}, []),
        ({"Refresh": "now; url=/page"}, []),
        ({"Refresh": "0; url=javascript:history.back()"}, []),
        (
            {"Refresh": "0; url=/page", "Link": "</next>; rel=next"},
            ["https://site.example/next", "https://site.example/page"],
        ),
    ],
)
def test_links_in_headers(headers: dict[str, str | bytes], links: list[str]) -> None:
    response = HtmlResponse(HOME, headers={"Content-Type": "text/html", **headers}, body=b"<p>text")
    assert list(followed_links(response, obey=None).links) == links
