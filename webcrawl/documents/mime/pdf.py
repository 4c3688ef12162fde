"""Reads PDF with PDFium: text, metadata, and the links of annotations and of the outline."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

import pypdfium2
from pypdfium2 import raw

from webcrawl.documents.document import Document
from webcrawl.documents.mime.dates import read_date
from webcrawl.documents.mime.facts import MAX_LINKS, MAX_TEXT, Facts, Link, absolute, language
from webcrawl.errors import UnreadableDocument

MAX_PAGES = 2_000
MAX_BOOKMARKS = 10_000
_MAX_ADDRESS = 8_192
# PDF 32000-1, 7.9.4: D:YYYYMMDDHHmmSSOHH'mm'. All parts after the year are optional; a zone needs a time.
_DATE = re.compile(
    r"(?:D:)?(\d{4})(?:(\d\d)(?:(\d\d)(?:(\d\d)(\d\d)?(\d\d)?(?:(Z|[+-])(?:(\d\d)(?:'?(\d\d))?)?'?)?)?)?)?",
    re.ASCII,
)


def read(document: Document) -> Facts:
    """Returns the facts of a PDF, with the text of its first 2,000 pages in file order; raises UnreadableDocument."""
    try:
        pdf = pypdfium2.PdfDocument(document.body)
    except pypdfium2.PdfiumError as error:
        locked = raw.FPDF_GetLastError() == raw.FPDF_ERR_PASSWORD
        raise UnreadableDocument("is protected by a password" if locked else f"is broken: {error}") from error
    with closing(pdf):
        metadata = {key: value.strip() for key, value in pdf.get_metadata_dict(skip_empty=True).items()}
        text, addresses = _contents(pdf)
        addresses += _outline_addresses(pdf)
        return Facts(
            title=metadata.get("Title"),
            description=metadata.get("Subject"),
            author=metadata.get("Author"),
            language=language(_language(pdf)),
            published=pdf_date(metadata.get("CreationDate", "")),
            modified=pdf_date(metadata.get("ModDate", "")),
            text=text,
            links=[Link(url) for url in absolute(addresses, document.url)],
            details={
                "pages": len(pdf),
                "keywords": metadata.get("Keywords"),
                "creator": metadata.get("Creator"),
                "producer": metadata.get("Producer"),
                "version": pdf.get_version(),
            },
        )


def pdf_date(value: str) -> datetime | None:
    """Parses a PDF date, or a date in another form; a date without a zone is in UTC. Returns None for other texts."""
    match = _DATE.fullmatch(value.strip())
    if match is None:
        return read_date(value)
    year, month, day, hour, minute, second = (
        int(part or default) for part, default in zip(match.groups()[:6], (0, 1, 1, 0, 0, 0), strict=True)
    )
    sign, hours, minutes = match.groups()[6:]
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    try:
        zone = timezone(offset) if sign in ("+", "-") else UTC
        return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=zone)
    except ValueError:
        return None


def _contents(pdf: pypdfium2.PdfDocument) -> tuple[str, list[str]]:
    """Returns the text and the addresses of the pages; skips broken pages."""
    texts: list[str] = []
    addresses: list[str] = []
    length = 0
    for number in range(min(len(pdf), MAX_PAGES)):
        try:
            with closing(pdf[number]) as page:
                addresses += _page_addresses(pdf, page)
                with closing(page.get_textpage()) as textpage:
                    # PDFium's character for a hyphen at a line break
                    texts.append(textpage.get_text_bounded().replace("\x02", ""))
        except pypdfium2.PdfiumError:
            continue
        length += len(texts[-1])
        if length > MAX_TEXT or len(addresses) > MAX_LINKS:
            break
    return " ".join(texts), addresses


def _page_addresses(pdf: pypdfium2.PdfDocument, page: pypdfium2.PdfPage) -> Iterator[str]:
    position, link = ctypes.c_int(0), raw.FPDF_LINK()
    for _ in range(MAX_LINKS):
        if not raw.FPDFLink_Enumerate(page, position, link):
            return
        if address := _address(pdf, raw.FPDFLink_GetAction(link)):
            yield address


def _outline_addresses(pdf: pypdfium2.PdfDocument) -> list[str]:
    """Returns the addresses of bookmarks. PDFium stops at 15 levels, so a circle of bookmarks ends."""
    addresses = []
    for number, bookmark in enumerate(pdf.get_toc()):
        if number == MAX_BOOKMARKS:
            break
        if address := _address(pdf, raw.FPDFBookmark_GetAction(bookmark.raw)):
            addresses.append(address)
    return addresses


def _address(pdf: pypdfium2.PdfDocument, action: object) -> str | None:
    if not action or raw.FPDFAction_GetType(action) != raw.PDFACTION_URI:
        return None
    buffer = ctypes.create_string_buffer(_MAX_ADDRESS)
    length = raw.FPDFAction_GetURIPath(pdf, action, buffer, _MAX_ADDRESS)
    return buffer.value.decode("utf-8", "replace") if 1 < length <= _MAX_ADDRESS else None


def _language(pdf: pypdfium2.PdfDocument) -> str | None:
    length = raw.FPDFCatalog_GetLanguage(pdf, None, 0)
    if not 2 < length < 200:
        return None
    buffer = ctypes.create_string_buffer(length)
    raw.FPDFCatalog_GetLanguage(pdf, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), length)
    return buffer.raw.decode("utf-16-le", "replace").rstrip("\0")
