"""JSON, plain text and archives."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.cases import cases
from tests.documents import tar, zip_bomb, zipped
from webcrawl.documents.document import Document
from webcrawl.documents.mime import archive
from webcrawl.documents.mime.facts import Facts, Link
from webcrawl.documents.mime.reader import call
from webcrawl.errors import UnreadableDocument, printable

Read = Callable[..., Facts]
JSON, TEXT, ARCHIVE = (
    "webcrawl.documents.mime.json_data:read",
    "webcrawl.documents.mime.text:read",
    "webcrawl.documents.mime.archive:read",
)


def read_here(reader: str, body: bytes, mime_type: str = "text/plain") -> Facts:
    """Reads a document in this process, as crawls do with small JSON and text."""
    return call(reader, Document(body, mime_type, "utf-8", "http://site.example/folder/file"))


# --- JSON ---


def test_json_ld_is_read() -> None:
    facts = read_here(
        JSON,
        b'{"@context": "https://schema.org", "@type": ["Article", "Thing"], "headline": " A  title ",'
        b' "inLanguage": "de-AT", "datePublished": "2026-11-21", "articleBody": "It says so."}',
    )
    assert (facts.title, facts.language, facts.text) == ("A title", "de", "It says so.")
    assert facts.published == datetime(2026, 11, 21, tzinfo=UTC)
    assert facts.details["types"] == ["Article", "Thing"]
    graph = read_here(JSON, b'{"@graph": [{"@type": "A"}, {"@type": "B"}, 7]}')
    assert graph.details["types"] == ["A", "B"]


def test_json_feed_has_links() -> None:
    facts = read_here(
        JSON,
        b'{"version": "https://jsonfeed.org/version/1.1", "title": "News", "items": ['
        b'{"url": "/one", "date_modified": "2026-11-21T10:00:00Z"}, {"url": "mailto:x"}, {"id": "2"}, 3]}',
    )
    assert facts.links == [Link("http://site.example/one", datetime(2026, 11, 21, 10, tzinfo=UTC))]
    assert facts.details["entries"] == 1


def test_json_feed_leads_to_other_sites_and_to_its_next_page() -> None:
    facts = read_here(
        JSON,
        b'{"version": "http://jsonfeed.org/version/1", "items": [{"external_url": "http://a.example/", "id": 1}],'
        b' "next_url": "?page=2"}',
    )
    assert [link.url for link in facts.links] == [
        "http://a.example/",
        "http://site.example/folder/file?page=2",
    ]
    assert facts.details["entries"] == 1
    assert read_here(JSON, b'{"items": [{"url": "/one"}]}').links == []


@cases(
    ("body", "kind"),
    [(b"[1, 2]", "array"), (b"[]", "array"), (b"7", "int"), (b"null", "NoneType"), (b"{}", "object")],
)
def test_kind_of_other_json_is_reported(body: bytes, kind: str) -> None:
    assert read_here(JSON, body).details["kind"] == kind


@cases(
    ("body", "error"),
    [
        (b"", "is broken"),
        (b'{"a": ', "is broken"),
        (b"[" * 200_000, "nested too deep"),
        (b'{"a":' * 200_000, "nested too deep"),
        (b"9" * 200_000, "limit"),
    ],
    ids=["empty", "cut", "arrays", "objects", "number"],
)
def test_broken_or_deep_json_is_refused(body: bytes, error: str) -> None:
    with pytest.raises(UnreadableDocument, match=error):
        read_here(JSON, body)


# --- plain text ---


def test_an_integer_that_is_too_long_loses_itself_alone() -> None:
    body = b'{"title": "T", "number": ' + b"1" * 5_000 + b"}"
    facts = read_here(JSON, body)
    assert (facts.title, facts.details["keys"]) == ("T", ["title", "number"])


def test_links_in_plain_text_are_found() -> None:
    body = "See http://a.example/x(1), (https://b.example/y). Not sftp://c.example nor a.example.\nhttp://["
    assert read_here(TEXT, body.encode()) == Facts(text=body, details={"lines": 2})
    facts = read_here("webcrawl.documents.mime.text:read_with_links", body.encode())
    assert [link.url for link in facts.links] == ["http://a.example/x(1)", "https://b.example/y"]
    assert read_here(TEXT, b"").details == {"lines": 0}


# --- archives ---


def test_zip_file_is_listed_without_unpacking(read: Read) -> None:
    facts = read(ARCHIVE, zip_bomb("large", 50), "application/zip")
    assert facts.details == {
        "format": "zip",
        "members": 2,
        "unpacked": 50_000_011,
        "names": ["[Content_Types].xml", "large"],
    }


@cases("packing", ["", "gz", "bz2", "xz"])
def test_tar_archive_is_listed(packing: str, read: Read) -> None:
    facts = read(ARCHIVE, tar("a/b.txt", "c", mode=f"w:{packing}"), "application/x-tar")
    assert (facts.details["members"], facts.details["unpacked"]) == (2, 200)
    assert facts.details["names"] == ["a/b.txt", "c"]


def test_tar_archive_in_the_v7_format_is_listed(read: Read) -> None:
    body = bytearray(tar("old"))
    body[257:512] = bytes(255)
    body[148:156] = b"        "
    body[148:156] = b"%06o\0 " % sum(body[:512])
    assert read(ARCHIVE, bytes(body), "application/x-tar").details["names"] == ["old"]


def test_compression_format_of_other_files_is_reported(read: Read) -> None:
    assert read(ARCHIVE, gzip.compress(b"text"), "application/gzip").details == {"format": "gzip"}


def test_decompression_and_members_of_a_tar_bomb_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_BYTES", 1_000_000)
    member = tarfile.TarInfo("large")
    member.size = 10_000_000
    body = gzip.compress(member.tobuf() + bytes(member.size), 1)
    details = read_here(ARCHIVE, body).details
    assert (details["members"], details["cut"]) == (1, True)
    monkeypatch.setattr(archive, "MAX_MEMBERS", 5)
    details = read_here(ARCHIVE, tar(*map(str, range(50)))).details
    assert (details["members"], details["cut"]) == (5, True)


@cases(
    "body",
    [b"", b"Rar!\x1a\x07 another kind", zipped({"a": "b"})[:-10], b"\x1f\x8bnot gzip at all", b"BZh91AY&SY"],
    ids=["empty", "another kind", "cut zip", "no gzip", "cut bzip2"],
)
def test_broken_archive_is_refused(body: bytes, read: Read) -> None:
    with pytest.raises(UnreadableDocument, match="is broken"):
        read(ARCHIVE, body, "application/zip")


def test_printable_escapes_control_characters() -> None:
    text = "\ta \x1b[2J\x1b]0;t\x07\x9b1m\x7f\r\n\x00\u2028\u202eä 你 \N{WAVING HAND SIGN}"
    line = printable(text)
    assert line.startswith("\ta \\u001b[2J") and line.endswith("\\u202eä 你 \N{WAVING HAND SIGN}")
    assert all(sign.isprintable() for sign in line[1:])
    assert json.loads(printable(json.dumps({"text": text}, ensure_ascii=False))) == {"text": text}
