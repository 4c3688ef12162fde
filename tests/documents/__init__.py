"""Small valid documents of types other than HTML, which tests read, damage or crawl."""

from __future__ import annotations

import gzip

from tests.documents.binary import image, mp3, mp4, ole, png_bomb, wav, webm
from tests.documents.markup import atom, entity_bomb, gzip_bomb, rss, sitemap_index, urlset
from tests.documents.packed import SEVEN_ZIP, docx, epub, odt, ooxml, rar, rar4, tar, zip_bomb, zipped
from tests.documents.pdfs import pdf, pdf_bomb, pdf_of

__all__ = [
    "atom",
    "docx",
    "entity_bomb",
    "epub",
    "gzip_bomb",
    "image",
    "mp3",
    "mp4",
    "odt",
    "ole",
    "ooxml",
    "pdf",
    "pdf_bomb",
    "pdf_of",
    "png_bomb",
    "rss",
    "sitemap_index",
    "tar",
    "urlset",
    "wav",
    "webm",
    "zip_bomb",
    "zipped",
    "MORE_SAMPLES",
    "SAMPLES",
    "mixed",
]

WEB = "http://site.example"

_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"

_ODT = "application/vnd.oasis.opendocument.text"

SAMPLES: dict[str, tuple[str, bytes]] = {
    # reader: MIME type and a valid document
    "pdf": (
        "application/pdf",
        pdf(
            "Hello world",
            pages=2,
            links=[f"{WEB}/linked"],
            outline=[f"{WEB}/marked"],
            info="/Title (A title)",
        ),
    ),
    "feed": (
        "application/rss+xml",
        rss("<title>One</title><link>/one</link><pubDate>Sat, 21 Nov 2026 10:00:00 GMT</pubDate>" * 3),
    ),
    "sitemap": ("application/xml", urlset(*((f"{WEB}/{number}", "2026-11-21") for number in range(30)))),
    "image": ("image/png", image()),
    "media": ("video/mp4", mp4()),
    "office": (_DOCX, docx("Some words", "and others")),
    "json_data": (
        "application/json",
        b'{"@type": "Article", "name": "A name", "items": [1, 2, {"a": null}]}',
    ),
    "text": ("text/plain", b"Some text."),
    "archive": ("application/gzip", gzip.compress(tar("a/b", "c"), mtime=0)),
}

MORE_SAMPLES: dict[str, list[tuple[str, bytes]]] = {
    "feed": [
        ("application/atom+xml", atom('<title>One</title><link href="one"/>' * 3, head="<title>A</title>"))
    ],
    "sitemap": [("application/gzip", gzip.compress(urlset((f"{WEB}/a", None)), mtime=0))],
    "image": [
        ("image/jpeg", image("JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0")),
        ("image/gif", image("GIF")),
        ("image/webp", image("WEBP")),
        ("image/tiff", image("TIFF")),
        ("image/heic", image("HEIF")),
        ("image/svg+xml", b"<svg xmlns='http://www.w3.org/2000/svg' width='3'><title>T</title></svg>"),
    ],
    "media": [("audio/wave", wav(0.1)), ("audio/mpeg", mp3("A", "B")), ("video/webm", webm())],
    "office": [(_ODT, odt("Some words")), ("application/msword", ole())],
    "archive": [
        ("application/x-tar", tar("a/b", "c")),
        ("application/zip", zipped({"a": "b"})),
        ("application/x-7z-compressed", SEVEN_ZIP),
        ("application/vnd.rar", rar("a/b", "c")),
        ("application/vnd.rar", rar4("a/b", "c")),
    ],
}

"""More samples by the same names. The reader of NAME is `webcrawl.documents.mime.NAME:read`."""


def mixed() -> tuple[dict[str, tuple[str, bytes]], dict[str, tuple[str, bytes]]]:
    """Returns all samples as name -> (MIME type, body), and the same samples cut in half."""
    good, cut = {}, {}
    for name, first in SAMPLES.items():
        for number, (mime_type, body) in enumerate([first, *MORE_SAMPLES.get(name, [])]):
            suffix = ".xml.gz" if name == "sitemap" and mime_type == "application/gzip" else ""
            good[f"{name}-{number}{suffix}"] = mime_type, body
            cut[f"cut-{name}-{number}{suffix}"] = mime_type, body[: len(body) // 2]
    return good, cut
