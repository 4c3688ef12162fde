"""RSS and Atom feeds, valid and invalid."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.cases import cases
from tests.documents import atom, entity_bomb, rss
from webcrawl.documents.mime.facts import Facts, Link
from webcrawl.errors import UnreadableDocument

Read = Callable[..., Facts]
READER, RSS, ATOM = "webcrawl.documents.mime.feed:read", "application/rss+xml", "application/atom+xml"
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_rss_feed_is_read(read: Read) -> None:
    body = rss(
        "<title>One &amp;amp; only</title><link>/one</link><pubDate>Sat, 21 Nov 2026 12:00:00 GMT</pubDate>"
        "<description>&lt;p&gt;Hello &lt;b&gt;you&lt;/b&gt;&lt;/p&gt;</description><author>A. Writer</author>"
        '<enclosure url="/one.mp3" type="audio/mpeg" length="1"/>',
        "<title>Two</title><link>https://other.example/two</link><pubDate>sometime</pubDate>",
        "<title>Without a link</title>",
        channel="<title>News</title><description>All &lt;i&gt;of&lt;/i&gt; it</description><language>de-AT</language>"
        "<link>http://site.example/</link>",
    )
    facts = read(READER, body, RSS)
    assert (facts.title, facts.description, facts.language) == ("News", "All of it", "de")
    assert facts.text == "One & only Hello you Two Without a link"
    assert facts.modified == NOON
    assert facts.links == [
        Link("http://site.example/one", NOON),
        Link("https://other.example/two", None),
        Link("http://site.example/", None),
    ]
    assert (facts.details["format"], facts.details["entries"]) == ("rss20", 3)
    items = facts.details["items"]
    assert isinstance(items, list)
    assert items[0] == {
        "title": "One & only",
        "url": "http://site.example/one",
        "published": NOON.isoformat(),
        "author": "A. Writer",
        "enclosures": ["/one.mp3"],
    }


def test_atom_feed_links_to_entries_and_the_next_page(read: Read) -> None:
    body = atom(
        '<title>One</title><link href="one"/><link rel="edit" href="/edit"/><updated>2026-11-21T12:00:00Z</updated>',
        head='<title>News</title><link rel="self" href="/feed"/><link rel="next" href="/feed?page=2"/>'
        '<link rel="hub" href="http://hub.example/"/>',
    )
    facts = read(READER, body, ATOM, url="http://site.example/blog/feed")
    assert facts.links == [
        Link("http://site.example/blog/one", NOON),
        Link("http://site.example/feed?page=2", None),
    ]


@pytest.mark.parametrize("tag", ["item", "rss:item"])
def test_entries_of_a_long_feed_are_counted_and_the_first_are_read(tag: str, read: Read) -> None:
    items = "".join(f"<{tag}><link>/{number}</link></{tag}>" for number in range(6_000))
    body = (
        f'<rss version="2.0" xmlns:rss="http://backend.userland.com/rss2"><channel><link>/</link>{items}'
        "<language>de</language></channel></rss>"
    )
    facts = read(READER, body.encode(), RSS)
    assert [link.url for link in facts.links] == [f"http://site.example/{n}" for n in [*range(5_000), ""]]
    assert (facts.details["entries"], facts.language) == (6_000, "de")
    assert "broken" not in facts.details


def test_an_entry_without_a_link_has_no_address(read: Read) -> None:
    body = b"<rss version='2.0'><channel><title>T</title><item><title>a</title></item></channel></rss>"
    facts = read(READER, body, RSS)
    assert facts.links == [] and "url" not in facts.details["items"][0]


def test_malformed_feed_is_read(read: Read) -> None:
    body = rss("<title>A & B</title><link>/one</link>", "<title>Two</title><link>/two</link>")[:-20]
    facts = read(READER, body, RSS)
    assert [link.url for link in facts.links] == ["http://site.example/one", "http://site.example/two"]
    assert facts.details["broken"] is True


@cases(
    ("written", "moment"),
    [
        ("Di, 21 Nov 2023 10:00:00 +0100", datetime(2023, 11, 21, 9, tzinfo=UTC)),
        ("2023年11月21日", datetime(2023, 11, 21, tzinfo=UTC)),
        ("Tuesday, November 21, 2023", datetime(2023, 11, 21, tzinfo=UTC)),
        ("1700560800", None),
    ],
)
def test_dates_of_entries_are_read_as_written(written: str, moment: datetime | None, read: Read) -> None:
    facts = read(READER, rss(f"<link>/one</link><pubDate>{written}</pubDate>"), RSS)
    assert facts.links[0].modified == moment


def test_entity_definitions_in_text_and_comments_are_accepted(read: Read) -> None:
    shown = "<![CDATA[<pre><!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]></pre>]]>"
    body = rss(f"<title>XXE</title><link>/one</link><description>{shown}</description>")
    before = (
        b"<!-- <!DOCTYPE a [<!ENTITY a 'b'>]> --><!DOCTYPE rss [<!-- <!ENTITY a 'b'> --><!ELEMENT a ANY>]>"
    )
    for feed in (body, body.replace(b"<rss", before + b"<rss")):
        assert [link.url for link in read(READER, feed, RSS).links] == ["http://site.example/one"]


@pytest.mark.parametrize(
    "doctype",
    [
        "<!-- a --> <?b?>\n<!doctype rss [<!entity a 'b'>]>",
        "<!DOCTYPE rss [<!-- ]> --><?a ]> ?><!ELEMENT a ANY><!ENTITY a 'b'>]>",
        "<!DOCTYPE rss SYSTEM 'a>[b' [<!ENTITY % a ']>'> <!ENTITY b 'c'>]>",
    ],
)
def test_entity_definitions_are_refused_anywhere_in_the_doctype(doctype: str, read: Read) -> None:
    body = rss("<title>&a;</title><link>/one</link>").replace(b"<rss", doctype.encode() + b"<rss")
    with pytest.raises(UnreadableDocument, match="defines entities"):
        read(READER, body, RSS)


@cases(
    ("body", "error"),
    [
        (b"", "is not a feed"),
        (b"<html><p>not a feed</html>", "is not a feed"),
        (b"\x00\x01\x02" * 100, "is not a feed"),
        (entity_bomb("rss"), "defines entities"),
    ],
    ids=["empty", "html", "bytes", "entities"],
)
def test_document_that_is_not_a_feed_is_refused(body: bytes, error: str, read: Read) -> None:
    with pytest.raises(UnreadableDocument, match=error):
        read(READER, body, RSS)


@pytest.mark.parametrize(
    ("begin", "repeated", "times", "error"),
    [
        (b"<rss>", b" ", 20_000_001, "more than any feed needs"),
        (b"", b"<!-- <!-- ]>'", 1_000_000, "is not a feed"),
        (b"<!DOCTYPE a [", b"<!-- <?' ", 1_000_000, "is not a feed"),
    ],
    ids=["large", "comment", "DOCTYPE"],
)
def test_a_large_document_that_is_not_a_feed_is_refused(
    begin: bytes, repeated: bytes, times: int, error: str, read: Read
) -> None:
    with pytest.raises(UnreadableDocument, match=error):
        read(READER, begin + repeated * times, RSS)


def test_external_references_of_a_feed_are_not_opened(read: Read) -> None:
    body = b'<!DOCTYPE rss SYSTEM "file:///etc/passwd">' + rss("<title>One</title><link>/one</link>")[38:]
    assert "root:" not in (read(READER, body, RSS).text or "")


def test_deeply_nested_feed_does_not_break_the_reader(read: Read) -> None:
    body = rss(f"<title>One</title><description>{'<div>' * 10_000}</description>")
    try:
        read(READER, body, RSS)
    except UnreadableDocument as error:
        assert "its reader" not in str(error)
