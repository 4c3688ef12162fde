"""Media types and charsets by the WHATWG standards, with a crawler's exceptions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.cases import cases
from tests.documents import docx, epub, odt, ooxml, tar, zipped
from webcrawl.config import Spool
from webcrawl.documents.body_writer import BodyWriter
from webcrawl.documents.mime import signatures, sniff as sniffing
from webcrawl.documents.mime.charset import charset_of, detected
from webcrawl.documents.mime.signatures import signature
from webcrawl.documents.mime.sniff import SNIFF_BYTES, sniff
from webcrawl.errors import ConfigurationError

OOXML = "application/vnd.openxmlformats-officedocument"

URL = "https://example.org/"
FRAME = b"\xff\xfb\x90\x00" + bytes(413)  # MPEG-1, layer III, 128 kbit/s, 44.1 kHz
PADDED = b"\xff\xfb\x92\x00" + bytes(414)
FRAME_2 = b"\xff\xf3\x40\xc0" + bytes(140)  # MPEG-2, 32 kbit/s, 22.05 kHz: 104 bytes, so no frame follows


def box(brand: bytes, *compatible: bytes) -> bytes:
    content = b"ftyp" + brand + b"\0\0\0\0" + b"".join(compatible)
    return (len(content) + 4).to_bytes(4, "big") + content + b"more"


def ebml(name: bytes, before: bytes = b"\x9f\x42\x86\x81\x01", length: bytes | None = None) -> bytes:
    return (
        b"\x1aE\xdf\xa3"
        + before
        + b"\x42\x82"
        + (length or bytes([0x80 | len(name)]))
        + name
        + b"\x42\x87\x81\x04"
    )


SIGNATURES = [
    # images
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"\x00\x00\x02\x00", "image/x-icon"),
    (b"BM\x36\x00\x0c\x00\x00\x00\x00\x00", "image/bmp"),
    (b"GIF87a\x01\x00", "image/gif"),
    (b"GIF89a\x01\x00", "image/gif"),
    (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff\xe0\0", "image/jpeg"),
    (box(b"avif", b"mif1"), "image/avif"),
    (box(b"heic", b"mif1"), "image/heic"),
    # audio and video
    (b"FORM\0\0\0\0AIFF", "audio/aiff"),
    (b"ID3\x04\0", "audio/mpeg"),
    (b"OggS\x00", "application/ogg"),
    (b"MThd\0\0\0\x06", "audio/midi"),
    (b"RIFF\x10\0\0\0AVI ", "video/avi"),
    (b"RIFF\x10\0\0\0WAVE", "audio/wave"),
    (box(b"mp42"), "video/mp4"),
    (box(b"isom", b"iso2", b"mp41"), "video/mp4"),
    (box(b"qt  "), "video/quicktime"),
    (box(b"M4A ", b"mp42"), "audio/mp4"),
    (ebml(b"webm"), "video/webm"),
    (ebml(b"webm", length=b"\x40\x04"), "video/webm"),
    (ebml(b"webm", length=b"\x85") + b"", "video/webm"),
    (ebml(b"matroska"), "video/x-matroska"),
    (FRAME + FRAME, "audio/mpeg"),
    (PADDED + FRAME, "audio/mpeg"),
    # fonts
    (bytes(34) + b"LP", "application/vnd.ms-fontobject"),
    (b"\x00\x01\x00\x00\x00\x0f", "font/ttf"),
    (b"OTTO\0", "font/otf"),
    (b"ttcf\0", "font/collection"),
    (b"wOFF\0", "font/woff"),
    (b"wOF2\0", "font/woff2"),
    # archives and documents
    (b"\x1f\x8b\x08\0", "application/gzip"),
    (b"PK\x03\x04", "application/zip"),
    (b"Rar!\x1a\x07\0", "application/vnd.rar"),
    (b"%PDF-1.7", "application/pdf"),
    (b"%!PS-Adobe-3.0", "application/postscript"),
]
NO_SIGNATURES = [
    b"",
    b"BMW is a car",
    b"ID3 is a format",
    b"GIF89a is another",
    b"FORM    AIFF",
    b"OTTO Waalkes",
    b"RIFF\x10\0\0\0WEBP",
    box(b"mp42")[:10],
    b"\0\0\0\x0eftypmp42\0\0\0\0",  # size is not a multiple of 4
    b"\0\0\0\x20moovmp42" + bytes(30),
    b"\x1aE\xdf\xa3" + bytes(40) + b"\x42\x82\x84webm",  # the DocType is too far from the start
    ebml(b"other"),
    FRAME,
    FRAME + b"\xff\xfb\xf0\x00",  # invalid bit rate
    FRAME_2,
    b"\xff\xfe\x90\x00" + bytes(413) + FRAME,  # another layer
]


@cases(("start", "mime_type"), SIGNATURES)
def test_signature_gives_the_mime_type(start: bytes, mime_type: str) -> None:
    assert signature(start) == mime_type
    for header in (None, "unknown/unknown", "application/unknown", "*/*", "application/octet-stream"):
        assert sniff(header, start, URL).mime_type == mime_type
    assert sniff("text/html", start, URL).mime_type == mime_type


@cases("start", NO_SIGNATURES)
def test_similar_start_is_not_a_signature(start: bytes) -> None:
    assert signature(start) is None


@given(st.binary(max_size=100))
def test_any_start_gives_a_mime_type_or_none(start: bytes) -> None:
    for head in (b"", b"\x1aE\xdf\xa3", b"\0\0\0\x10ftyp", b"\xff\xfb\x90"):
        assert signature(head + start) is None or "/" in str(signature(head + start))


@pytest.fixture
def djvu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sniffing, "_EXTENSIONS", {**sniffing._EXTENSIONS})
    monkeypatch.setattr(sniffing, "_added_types", set())
    monkeypatch.setattr(signatures, "_added", {})
    sniffing.add_types(
        {"image/x.djvu"},
        {".djvu": "image/vnd.djvu"},
        {rb"AT&TFORM....DJV": "image/vnd.djvu", rb"<!-- djvu": "text/djvu"},
    )


@pytest.mark.usefixtures("djvu")
def test_added_types_are_sniffed() -> None:
    start = b"AT&TFORM\0\0\n\0DJVU"
    assert {"image/x.djvu", "image/vnd.djvu", "text/djvu"} <= sniffing.known_types()
    assert signatures.signature(start) == "image/vnd.djvu"
    for header in (None, "application/octet-stream", "text/html", "image/png"):
        assert sniff(header, start, URL).mime_type == "image/vnd.djvu"
    assert sniff("text/html", b"<!-- djvu -->", URL).mime_type == "text/djvu"
    assert sniff("application/octet-stream", b"\0", URL + "a.DjVu").mime_type == "image/vnd.djvu"
    assert sniff("application/pdf", start, URL + "a.djvu").mime_type == "application/pdf"


@pytest.mark.parametrize("extension", ["djvu", ".DJVU"])
def test_extension_that_never_matches_is_rejected(extension: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{extension}'"):
        sniffing.add_types((), {extension: "image/vnd.djvu"})


TAGS = ["!DOCTYPE HTML", "HTML", "HEAD", "SCRIPT", "IFRAME", "H1", "DIV", "FONT", "TABLE"]
TAGS += ["A", "STYLE", "TITLE", "B", "BODY", "BR", "P"]


@cases("tag", TAGS)
@cases("case", [str.upper, str.lower, str.title])
@cases("before", ["", "\t\n\f\r "])
def test_html_tags_are_sniffed(tag: str, case: object, before: str) -> None:
    assert callable(case)
    for end in (" ", ">"):
        assert sniff(None, f"{before}<{case(tag)}{end}".encode(), URL).mime_type == "text/html"
        assert sniff(None, f"{before}<{case(tag)}{end}".encode(), URL, nosniff=True).mime_type == "text/plain"
    assert sniff(None, f"{before}<{case(tag)}x".encode(), URL).mime_type == "text/plain"
    assert sniff(None, f"x{before}<{case(tag)}>".encode(), URL).mime_type == "text/plain"


@cases(
    ("start", "mime_type"),
    [
        (b"<!-- x", "text/html"),
        (b" <?xml version", "text/xml"),
        (b"<?php", "text/plain"),
        (b"\xfe\xff\0a", "text/plain"),
        (b"\xff\xfea\0", "text/plain"),
        (b"\xef\xbb\xbf\0", "text/plain"),
        (b"a\tb\n\f\r\x1bc", "text/plain"),
        *[
            (b"a" + bytes([byte]), "application/octet-stream")
            for byte in (0, 8, 0x0B, 0x0E, 0x1A, 0x1C, 0x1F)
        ],
        (b"a" * SNIFF_BYTES + b"\0", "text/plain"),
    ],
)
def test_undeclared_type_is_sniffed(start: bytes, mime_type: str) -> None:
    assert sniff(None, start, URL).mime_type == mime_type
    if mime_type != "text/html" and not start.lstrip().startswith(b"<?xml"):
        assert sniff("text/plain", start, URL).mime_type == mime_type


PNG = b"\x89PNG\r\n\x1a\n\0"
NOSNIFF = [
    ("text/html", b"%PDF-1.7\0", "text/html"),
    ("text/plain", b"\0\1", "text/plain"),
    ("text/plain", b"<html>", "text/plain"),
    ("image/gif", PNG, "image/gif"),
    ("audio/mpeg", b"OggS\0", "audio/mpeg"),
    ("text/xml", b"<rss>", "application/rss+xml"),
    (None, b"%PDF-1.7\0", "application/octet-stream"),
    (None, PNG, "image/png"),
    (None, b"<?xml version='1.0'?>", "text/plain"),
    ("application/octet-stream", PNG, "image/png"),
]


@cases(("header", "start", "mime_type"), NOSNIFF)
def test_nosniff_keeps_the_declared_type(header: str | None, start: bytes, mime_type: str) -> None:
    assert sniff(header, start, URL, nosniff=True).mime_type == mime_type


@cases(
    ("header", "start", "mime_type"),
    [
        ("image/gif", PNG, "image/png"),
        ("image/png", b"no picture", "image/png"),
        ("image/svg+xml", PNG, "image/svg+xml"),
        ("audio/mpeg", b"OggS\0", "application/ogg"),
        ("audio/ogg", b"OggS\0", "audio/ogg"),
        ("video/mp4", ebml(b"webm"), "video/webm"),
        ("audio/webm", ebml(b"webm"), "audio/webm"),
        ("video/quicktime", box(b"mp42"), "video/quicktime"),
        ("audio/wav", b"RIFF\x10\0\0\0WAVE", "audio/wave"),
        ("font/woff", b"wOF2\0", "font/woff2"),
        ("text/plain", b"ID3 is a format", "text/plain"),
        ("text/plain", b"BM.{4}", "text/plain"),
        ("text/html; charset=utf-8, text/plain", b"<p>", "text/plain"),
        ("text/html, */*", b"<p>", "text/html"),
        ("text/html, nonsense", b"<p>", "text/html"),
        ("application/json", PNG, "image/png"),
        ("application/zip", PNG, "application/zip"),
    ],
)
def test_declared_type_is_kept_or_corrected(header: str, start: bytes, mime_type: str) -> None:
    assert sniff(header, start, URL).mime_type == mime_type


@cases("header", ["text/html; charset=utf-8", "text/plain", "application/octet-stream", "text/xml", ""])
@cases("nosniff", [False, True])
def test_sitemap_is_recognized_under_any_header(header: str, nosniff: bool) -> None:
    for start in (
        "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>",
        "\ufeff<?xml version='1.0'?>\n<?xml-stylesheet href='a'?><!-- <a> --><sitemapindex>",
        "<!DOCTYPE s:urlset [<!ELEMENT a ANY>]> <s:urlset xmlns:s='x'>",
    ):
        assert (
            sniff(header, start.encode(), f"{URL}sitemap.php", nosniff=nosniff).mime_type == "application/xml"
        )
    for start in ("a <urlset>", "<p><urlset>", "<urlsets>", "<!-- <urlset> -->"):
        assert sniff("text/html", start.encode(), URL, nosniff=nosniff).mime_type == "text/html"


@pytest.mark.parametrize("prolog", [b"<?a?>", b"<!---->", b"<!DOCTYPE a[]>"])
def test_long_xml_prolog_is_scanned_in_linear_time(prolog: bytes) -> None:
    # with two ways to match each item the search would be exponential
    assert sniff("text/xml", prolog * (SNIFF_BYTES // len(prolog)), URL).mime_type == "text/xml"
    assert sniff("text/xml", b"\xef\xbb\xbf" + prolog * 20 + b"<rss>", URL).mime_type == "application/rss+xml"


def test_large_body_is_sniffed_by_its_start(tmp_path: Path) -> None:
    for content, header, expected in (
        (b"\x89PNG\r\n\x1a\n" + bytes(300_000), None, ("image/png", None)),
        ("ü".encode() * 300_000, "text/plain", ("text/plain", "utf-8")),
        (b"<meta charset=koi8-r>" + b"\xc1" * 300_000, "text/html", ("text/html", "koi8-r")),
    ):
        writer = BodyWriter(Spool(tmp_path))
        writer.add(content)
        assert tuple(sniff(header, writer.finish(), URL)) == expected


@cases(
    ("header", "codec"),
    [
        ("text/html; charset=iso-8859-1, text/html; charset=utf-8", "utf-8"),
        ("text/html; charset=utf-8, text/html", "utf-8"),
        ("text/html; charset=windows-1251, text/plain", "cp1252"),
        ("text/html; charset=windows-1251, */*; charset=utf-8, wrong", "cp1251"),
        ("text/html; charset=windows-1251; charset=utf-8", "cp1251"),
        ('text/html; x="a, text/html; charset=utf-8"; charset=windows-1251', "cp1251"),
    ],
)
def test_of_several_types_the_last_counts(header: str, codec: str) -> None:
    assert charset_of(header, b"<title>\xe9", "text/html") == codec


@cases("comment", ["<!-->", "<!--->", "<!-- a --!>", "<!-- <meta charset=utf-8> -->"])
def test_a_comment_ends_as_in_browsers(comment: str) -> None:
    page = f"{comment}<meta charset=windows-1251> -->".encode()
    assert charset_of("text/html", page, "text/html") == "cp1251"


# Article 1 of the Universal Declaration of Human Rights
ARTICLE = {
    "ru": "Все люди рождаются свободными и равными в своём достоинстве и правах. Они наделены разумом и совестью и"
    " должны поступать в отношении друг друга в духе братства.",
    "ja": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを"
    "授けられており、互いに同胞の精神をもって行動しなければならない。",
    "zh": "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
    "tw": "人人生而自由,在尊嚴和權利上一律平等。他們賦有理性和良心,並應以兄弟關係的精神相對待。",
    "ko": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을"
    " 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.",
    "pl": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni obdarzeni rozumem i"
    " sumieniem i powinni postępować wobec innych w duchu braterstwa. Każda istota ludzka może być źródłem ćwiczeń.",
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. Είναι προικισμένοι με"
    " λογική και συνείδηση, και οφείλουν να συμπεριφέρονται μεταξύ τους με πνεύμα αδελφοσύνης.",
    "he": "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון, לפיכך חובה עליהם לנהוג"
    " איש ברעהו ברוח של אחווה.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt"
    " und sollen einander im Geiste der Brüderlichkeit begegnen. Für größere Völker gehört natürlich Übung dazu.",
}


@cases(
    ("language", "codec"),
    [
        ("ru", "cp1251"),
        ("ru", "koi8-r"),
        ("ja", "cp932"),
        ("ja", "euc_jp"),
        ("ja", "iso2022_jp"),
        ("zh", "gb18030"),
        ("tw", "big5hkscs"),
        ("ko", "cp949"),
        ("pl", "cp1250"),
        ("pl", "iso8859-2"),
        ("el", "cp1253"),
        ("he", "cp1255"),
        ("de", "cp1252"),
        ("de", "utf-8"),
        ("ru", "utf-8"),
    ],
)
def test_undeclared_charset_is_detected(language: str, codec: str) -> None:
    page = f"<html><title>1</title><body class=main><p>{ARTICLE[language]}</p></body></html>"
    found = sniff("text/html", page.encode(codec), URL).charset
    assert found is not None and page.encode(codec).decode(found) == page
    # a declared charset is trusted
    assert sniff("text/html; charset=cp1257", page.encode(codec), URL).charset == "cp1257"


@given(st.binary())
def test_detection_always_finds_a_codec(start: bytes) -> None:
    assert isinstance(start.decode(detected(start), "replace"), str)


@cases(
    ("body", "mime_type"),
    [
        (epub("x"), "application/epub+zip"),
        (odt("x"), "application/vnd.oasis.opendocument.text"),
        (docx("x"), f"{OOXML}.wordprocessingml.document"),
        (ooxml(xl__workbook="<a/>", word__a="<a/>"), f"{OOXML}.wordprocessingml.document"),
        (zipped({"_rels/.rels": "", "xl/workbook.xml": ""}), f"{OOXML}.spreadsheetml.sheet"),
        (
            zipped({"[Content_Types].xml": "", "ppt/presentation.xml": ""}),
            f"{OOXML}.presentationml.presentation",
        ),
        (zipped({"word/notes.txt": "in a folder of that name"}), "application/zip"),
        (zipped({"mimetype": "text/plain"}), "application/zip"),
        (tar("a"), "application/x-tar"),
    ],
    ids=["epub", "odt", "docx", "both", "xlsx", "pptx", "zip", "other type", "tar"],
)
def test_zip_based_types_are_sniffed(body: bytes, mime_type: str) -> None:
    for header in (None, "application/octet-stream", "application/zip", "text/plain"):
        found_type = sniff(header, body, "http://a.example/download").mime_type
        assert found_type == (
            "application/zip" if header == "application/zip" and "tar" in mime_type else mime_type
        )
    assert sniff("application/x-own", body, "http://a.example/download").mime_type == "application/x-own"


@pytest.mark.parametrize(
    "header", ["text/html charset=utf-8", "text/html\tcharset=x", "text/html (page)", "TEXT/HTML charset=a"]
)
def test_white_space_or_a_parenthesis_ends_a_type(header: str) -> None:
    assert sniff(header, b"<ul><li>x", URL).mime_type == "text/html"


@pytest.mark.parametrize(
    "header",
    [
        "text/plain",
        "text/rss+xml",
        "application/x-rss+xml",
        "application/rss",
        "application/octet-stream",
        "text/html",
    ],
)
def test_a_feed_is_one_whatever_the_header_says(header: str) -> None:
    assert (
        sniff(header, b"<?xml version='1.0'?>\n<rss version='2.0'>", URL).mime_type == "application/rss+xml"
    )
    assert sniff(header, b"<feed xmlns='x'>", URL).mime_type == "application/atom+xml"
    assert sniff(header, b"<rdf>", URL).mime_type != "application/rss+xml"
    if header == "text/plain":
        assert sniff(header, b"<rss version='2.0'>", URL, nosniff=True).mime_type == header
