"""Headers as received, and how they are looked up, compared with Scrapy's own class."""

from __future__ import annotations

from hypothesis import example, given, strategies as st
from scrapy.http import Headers
from scrapy.linkextractors import LinkExtractor

from webcrawl.crawler.responses import header, header_values, make_response, received_headers
from webcrawl.documents.body import Body

names = st.sampled_from([b"ETag", b"etag", b"Set-Cookie", b"X-Robots-Tag", b"LINK"]) | st.binary(max_size=8)


@given(st.lists(st.tuples(names, st.binary(max_size=8)), max_size=8))
@example([(b"etag", b"1"), (b"ETag", b""), (b"X-robots-TAG", b"none")])
def test_received_headers_equal_scrapys(fields: list[tuple[bytes, bytes]]) -> None:
    headers, scrapys = received_headers(fields), Headers(fields)
    assert headers == scrapys
    assert list(headers.items()) == list(scrapys.items())
    for name in (b"Etag", b"Set-Cookie", b"X-Robots-Tag", b"Link"):
        assert header(headers, name) == scrapys.get(name)
        assert header_values(headers, name) == scrapys.getlist(name)


def test_spiders_follow_links_in_the_encoding_of_the_page_as_in_scrapy() -> None:
    body = Body("<a href='/你?q=你'>x</a>".encode("gbk"))
    response = make_response(
        body, "http://h/", received_headers([(b"Content-Type", b"text/html; charset=gbk")])
    )
    url = "http://h/%E4%BD%A0?q=%C4%E3"
    assert response.follow(response.css("a")[0]).url == response.follow("/你?q=你").url == url
    assert [link.url for link in LinkExtractor().extract_links(response)] == [url]
