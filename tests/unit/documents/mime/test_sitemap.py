"""Sitemaps: entries, limits, and decompression bombs."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from tests.documents import WEB, entity_bomb, gzip_bomb, sitemap_index, urlset
from webcrawl.documents.mime.facts import MAX_LINKS, Facts, Link
from webcrawl.documents.mime.sitemap import MAX_BYTES
from webcrawl.documents.mime.sniff import sniff
from webcrawl.documents.mime.xml import repaired
from webcrawl.errors import UnreadableDocument

Read = Callable[..., Facts]
READER, XML, GZIP = "webcrawl.documents.mime.sitemap:read", "application/xml", "application/gzip"


def test_entries_are_read_with_their_dates(read: Read) -> None:
    body = urlset(
        (f"{WEB}/a?x=1&amp;y=2", "2026-11-21"),
        (" /relative ", None),
        ("mailto:nobody", None),
        (f"{WEB}/b", "2026-11-21T10:00:00+02:00"),
        (f"{WEB}/c", "yesterday"),
        (f"{WEB}/d", "2026-11"),
    )
    facts = read(READER, body, XML)
    assert facts.links == [
        Link(f"{WEB}/a?x=1&y=2", datetime(2026, 11, 21, tzinfo=UTC)),
        Link(f"{WEB}/relative", None),
        Link(f"{WEB}/b", datetime(2026, 11, 21, 8, tzinfo=UTC)),
        Link(f"{WEB}/c", None),
        Link(f"{WEB}/d", datetime(2026, 11, 1, tzinfo=UTC)),
    ]
    assert facts.modified == datetime(2026, 11, 21, 8, tzinfo=UTC)
    assert facts.details == {"sitemap": "urlset", "entries": 5}


def test_what_a_sitemap_says_about_changes_and_ranks_is_read(read: Read) -> None:
    entries = [
        ("a", "<changefreq> Hourly </changefreq><priority>0.9</priority>", 3600.0, 0.9),
        ("b", "<priority>1</priority>", None, 1.0),
        ("c", "<changefreq>sometimes</changefreq><priority>7</priority>", None, None),
        ("d", "<changefreq>never</changefreq><priority>nan</priority>", 100 * 365 * 86_400.0, None),
        ("e", "<priority></priority><changefreq/>", None, None),
    ]
    body = "".join(f"<url><loc>{WEB}/{name}</loc>{more}</url>" for name, more, _, _ in entries)
    facts = read(READER, f"<urlset>{body}</urlset>".encode(), XML)
    assert facts.links == [Link(f"{WEB}/{name}", None, period, rank) for name, _, period, rank in entries]


@pytest.mark.parametrize("packed", [False, True])
def test_sitemap_index_links_to_sitemaps(packed: bool, read: Read) -> None:
    body = sitemap_index((f"{WEB}/1.xml.gz", "2026-11-21"), (f"{WEB}/2.xml", None))
    facts = read(READER, gzip.compress(body) if packed else body, GZIP if packed else XML)
    assert [link.url for link in facts.links] == [f"{WEB}/1.xml.gz", f"{WEB}/2.xml"]
    assert facts.details == {"sitemap": "sitemapindex", "entries": 2}


def test_images_and_videos_of_an_entry_are_skipped(read: Read) -> None:
    body = urlset((f"{WEB}/page", None)).replace(
        b"</loc>",
        b'</loc><image:image xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">'
        b"<image:loc>http://site.example/i.png</image:loc></image:image>",
    )
    assert [link.url for link in read(READER, body, XML).links] == [f"{WEB}/page"]


def test_text_sitemap_is_read_by_lines(read: Read) -> None:
    body = f"\ufeff{WEB}/a\r\n\r\nnothing\n{WEB}/b\n{WEB}/a".encode()
    facts = read(READER, body, "text/plain")
    assert [link.url for link in facts.links] == [f"{WEB}/a", f"{WEB}/b"]
    assert facts.details == {"sitemap": "text", "entries": 2}


@cases(
    ("body", "mime_type"),
    [
        (f"\ufeff{WEB}/a\n{WEB}/b\n".encode("utf-16-le"), "text/plain"),
        (f"{WEB}/a\n{WEB}/b\n".encode("utf-16-be"), "text/plain"),
        (f"{WEB}/a\t2026-11-21\n {WEB}/b  0.5\n".encode(), "text/plain"),
        (f"{WEB}/a\n{WEB}/b\n".encode(), "text/html"),
    ],
)
def test_lists_in_utf_16_with_dates_or_as_html_are_read(body: bytes, mime_type: str, read: Read) -> None:
    assert [link.url for link in read(READER, body, mime_type).links] == [f"{WEB}/a", f"{WEB}/b"]


@cases(
    "before",
    [
        b"<br />\n<b>Warning</b>: Undefined index in <b>/www/map.php</b> on line <b>2</b><br />\n",
        b"Notice: no cache\n",
        b"<!-- cached -->\n<p>x",
    ],
)
def test_a_warning_before_a_sitemap_costs_no_entry(before: bytes, read: Read) -> None:
    namespace = "http://www.sitemaps.org/schemas/sitemap/0.9"
    start = f"<?xml version='1.0' encoding='UTF-8'?>\n<urlset xmlns='{namespace}'>"
    entries = f"<url><loc>{WEB}/a</loc></url><url><loc>{WEB}/b?x=1&y=2</loc></url></urlset>"
    for body in (entries, entries.replace("&", "&amp;")):
        packed = before + (start + body).encode()
        assert sniff("text/html", packed, WEB).mime_type == XML
        facts = read(READER, packed, XML)
        assert [link.url for link in facts.links] == [f"{WEB}/a", f"{WEB}/b?x=1&y=2"]
        assert facts.details["broken"] is True
    page = b"<!DOCTYPE html><body><pre>" + before + start.encode()
    assert sniff("text/html", page, WEB).mime_type == "text/html"


def test_dates_of_people_and_marked_up_addresses_are_read(read: Read) -> None:
    body = urlset(
        (f"<a href='/x'>{WEB}/a</a>", "Sat, 21 Nov 2026 10:00:00 GMT"), (f"{WEB}/b", "2026-11-21 10:00 UTC")
    )
    moment = datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert read(READER, body, XML).links == [Link(f"{WEB}/a", moment), Link(f"{WEB}/b", moment)]


def test_a_packed_list_of_lines_is_read(read: Read) -> None:
    body = gzip.compress(f"{WEB}/a\n{WEB}/b\n".encode())
    assert [link.url for link in read(READER, body, GZIP).links] == [f"{WEB}/a", f"{WEB}/b"]


def test_an_entity_makes_no_address(read: Read) -> None:
    urls = "<url><loc>&x;1</loc></url><url><loc>/2</loc></url>"
    body = f'<!DOCTYPE urlset [<!ENTITY x "{WEB}/">]><urlset>{urls}</urlset>'
    assert [link.url for link in read(READER, body.encode(), XML).links] == [f"{WEB}/2"]


def test_truncated_sitemap_is_read_up_to_its_end(read: Read) -> None:
    body = urlset(*((f"{WEB}/{number}", None) for number in range(100)))
    for cut, mime_type in ((body[:2_000], XML), (gzip.compress(body)[:-20], GZIP)):
        facts = read(READER, cut, mime_type)
        assert 10 < len(facts.links) < 100
        assert facts.details["broken"] is True


EARLIER, LATER = [f"{WEB}/{name}" for name in "abc"], [f"{WEB}/{name}" for name in "xyz"]


def damaged(entry: str, *, declared: str = "UTF-8") -> str:
    """A sitemap with an entry as it is written here, between six good entries."""
    before, after = ("".join(f"<url><loc>{url}</loc></url>" for url in urls) for urls in (EARLIER, LATER))
    return f'<?xml version="1.0" encoding="{declared}"?>\n<urlset>{before}{entry}{after}</urlset>'


@cases(
    ("body", "url"),
    [
        (damaged(f"<url><loc>{WEB}/?m=1&n=2&copy=3&;</loc></url>").encode(), f"{WEB}/?m=1&n=2&copy=3&;"),
        (damaged(f"<url><loc>{WEB}/m&eacute;&amp;&#110;</loc></url>").encode(), f"{WEB}/m%C3%A9&n"),
        (damaged(f"<url><loc>{WEB}/m&unknown;</loc></url>").encode(), f"{WEB}/m&unknown;"),
        (damaged(f"<url><loc>{WEB}/m\x0b\0n</loc></url>").encode(), f"{WEB}/mn"),
        (damaged(f"<url><loc>{WEB}/m\xe9</loc></url>").encode("latin-1"), f"{WEB}/m%C3%A9"),
        (
            damaged(f"<url><loc>{WEB}/m&\u0431</loc></url>", declared="windows-1251").encode("cp1251"),
            f"{WEB}/m&%D0%B1",
        ),
        (b"\r\n\t " + damaged(f"<url><loc>{WEB}/m</loc></url>").encode(), f"{WEB}/m"),
        (b"<!-- cached -->" + damaged(f"<url><loc>{WEB}/m</loc></url>").encode(), f"{WEB}/m"),
        (damaged(f"<url><loc>{WEB}/m</loc></url>", declared="UTF-16").encode(), f"{WEB}/m"),
        (damaged(f"<url><loc>{WEB}/m&n</loc></url>", declared="UTF-16").encode("utf-16"), f"{WEB}/m&n"),
        (damaged(f"<url><loc>{WEB}/m</loc></url>", declared="none-such").encode(), f"{WEB}/m"),
        (damaged(f"<url><loc>{WEB}/m</loc>").encode(), f"{WEB}/m"),
        (damaged(f"<url><loc>{WEB}/m</url>").encode(), f"{WEB}/m"),
        (damaged(f"<url><loc><![CDATA[{WEB}/?m=1&n=2]]></loc><x>&</x></url>").encode(), f"{WEB}/?m=1&n=2"),
        (
            damaged(f"<url><loc>{WEB}/m</loc><image:image><image:loc>{WEB}/i</image:loc></url>").encode(),
            f"{WEB}/m",
        ),
        (damaged(f"<url><loc>{WEB}/m</loc></url>").encode() + b"<script>1 < 2</script>", f"{WEB}/m"),
    ],
    ids=[
        "ampersand",
        "entity",
        "unknown entity",
        "control character",
        "Latin-1 in UTF-8",
        "ampersand in windows-1251",
        "white space first",
        "comment first",
        "UTF-8 declared as UTF-16",
        "ampersand in UTF-16",
        "unknown encoding",
        "entry not closed",
        "address not closed",
        "CDATA",
        "prefix not declared",
        "script after the end",
    ],
)
@cases("packed", [False, True])
def test_damage_costs_no_other_entry(body: bytes, url: str, packed: bool, read: Read) -> None:
    facts = read(READER, gzip.compress(body) if packed else body, GZIP if packed else XML)
    assert [link.url for link in facts.links] == [*EARLIER, url, *LATER]
    assert facts.details == {"sitemap": "urlset", "entries": 7, "broken": True}


@given(
    st.lists(
        st.sampled_from(
            ["<loc>", "</loc>", "<![CDATA[", "]]>", "&", "&amp;", "&eacute;", "x" * 9, "é", "\x0b"]
        )
    ),
    st.integers(40, 60),
)
def test_pieces_of_any_size_are_repaired_alike(parts: list[str], size: int) -> None:
    # the first piece tells the encoding
    body = f'<?xml version="1.0" encoding="utf-8"?>{"".join(parts)}'.encode()

    def repair(piece: int) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("webcrawl.documents.mime.xml._PIECE", piece)
            return "".join(repaired(io.BytesIO(body)))

    assert repair(size) == repair(1 << 16)


def test_gzip_of_several_members_is_read_completely(read: Read) -> None:
    body = urlset(*((f"{WEB}/{number}", None) for number in range(10_000)))
    members = [gzip.compress(body[start : start + 50_000]) for start in range(0, len(body), 50_000)]
    for between in (b"", b"\0" * 512, gzip.compress(b"")):
        assert read(READER, between.join(members), GZIP).details == {"sitemap": "urlset", "entries": 10_000}
    facts = read(READER, members[0] + b"no member", GZIP)
    assert 100 < len(facts.links) < 2_000 and facts.details["broken"] is True


@pytest.mark.parametrize("at", [0, 3])
def test_gzip_with_a_wrong_checksum_is_read_completely(at: int, read: Read) -> None:
    body = urlset(*((f"{WEB}/{number}", None) for number in range(10_000)))
    members = [gzip.compress(body[start : start + 100_000]) for start in range(0, len(body), 100_000)]
    members[at] = members[at][:-8] + bytes(8)
    details = {"sitemap": "urlset", "entries": 10_000, "broken": True}
    assert read(READER, b"".join(members), GZIP).details == details


@pytest.mark.parametrize(
    ("entries", "details"),
    [(MAX_LINKS, {"entries": MAX_LINKS}), (MAX_LINKS + 10, {"entries": MAX_LINKS, "cut": True})],
)
def test_entries_are_limited_as_in_the_protocol(entries: int, details: dict[str, object], read: Read) -> None:
    urls = [f"{WEB}/{number}" for number in range(entries)]
    # a repeated entry counts once
    facts = read(READER, urlset((urls[0], None), *((url, None) for url in urls)), XML)
    assert (len(facts.links), facts.details) == (MAX_LINKS, {"sitemap": "urlset", **details})
    facts = read(READER, "\n".join([urls[0], *urls]).encode(), "text/plain")
    assert (len(facts.links), facts.details) == (MAX_LINKS, {"sitemap": "text", **details})


def test_sitemap_is_read_up_to_50_mb(read: Read) -> None:
    start, end = urlset((f"{WEB}/a", None)).rsplit(b"</", 1)
    for spare, cut in ((0, None), (1, True)):
        left = MAX_BYTES - len(start) - len(end) - 2 + spare
        filled = (b"<x>" + b" " * 999_993 + b"</x>") * (left // 1_000_000) + b" " * (left % 1_000_000)
        body = start + filled + b"</" + end
        facts = read(READER, gzip.compress(body, 1), GZIP)
        assert [link.url for link in facts.links] == [f"{WEB}/a"]
        assert facts.details.get("cut") is cut


def test_other_xml_has_no_facts(read: Read) -> None:
    facts = read(
        READER, b"<?xml version='1.0'?><catalogue><url><loc>http://a.example/</loc></url></catalogue>", XML
    )
    assert facts == Facts()


@cases(
    ("body", "mime_type"),
    [  # created on use, because some are large
        (lambda: entity_bomb("urlset"), XML),
        (lambda: b"<urlset>" + b"<a>" * 500_000, XML),
        (gzip_bomb, GZIP),
        (lambda: gzip.compress(b"<urlset>" + b" " * 100_000_000, 1), GZIP),
        (lambda: b"", XML),
        (lambda: b"\x1f\x8bnot gzip at all", GZIP),
        (lambda: b'<!DOCTYPE urlset SYSTEM "http://127.0.0.1:9/x.dtd"><urlset>&x;</urlset>', XML),
    ],
    ids=["entities", "depth", "gzip bomb", "gzip bomb of one text", "empty", "no gzip", "outside DTD"],
)
def test_broken_sitemap_or_bomb_is_refused_or_empty(
    body: Callable[[], bytes], mime_type: str, read: Read
) -> None:
    try:
        assert read(READER, body(), mime_type).links == []
    except UnreadableDocument as error:
        assert str(error).startswith("is broken")
