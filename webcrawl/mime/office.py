"""Office documents: text and links of OOXML and OpenDocument, of the older binary ones what they say of themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import olefile
from lxml import etree

from webcrawl.document import Document
from webcrawl.errors import UnreadableDocument
from webcrawl.mime.facts import MAX_TEXT, Facts, Link, absolute, language
from webcrawl.mime.sitemap import w3c_time
from webcrawl.mime.zipped import Zipped, first_texts, local

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Where OOXML keeps its text: of Word, Excel and PowerPoint.
_TEXTS = re.compile(r"word/document\.xml|xl/sharedStrings\.xml|ppt/slides/slide(\d+)\.xml")
_PARAGRAPHS = frozenset({"p", "si", "h", "table-cell"})
_STATISTICS = ("Pages", "Words", "Slides", "Application", "Company")


def read(document: Document) -> Facts:
    """Raises UnreadableDocument: it is broken, locked, or too much to unpack."""
    if document.start(len(_OLE)) == _OLE:
        return _read_ole(document)
    if document.start(2) != b"PK":
        raise UnreadableDocument("is broken, or no office document")
    office = Zipped(document)
    if "[Content_Types].xml" in office:
        return _read_ooxml(office, document.url)
    if "content.xml" in office:
        return _read_odf(office, document.url)
    raise UnreadableDocument("is broken: it is a zip file, but of no office document")


def _read_ooxml(office: Zipped, base: str) -> Facts:
    said = first_texts(office.xml("docProps/core.xml")) if "docProps/core.xml" in office else {}
    counted = first_texts(office.xml("docProps/app.xml")) if "docProps/app.xml" in office else {}
    parts = sorted((int(match[1] or 0), name) for name in office.names if (match := _TEXTS.fullmatch(name)))
    sheets = office.xml("xl/workbook.xml") if "xl/workbook.xml" in office else None
    links = (office.xml(name) for name in office.names if name.endswith(".rels"))
    return Facts(
        title=said.get("title"),
        description=said.get("description") or said.get("subject"),
        author=said.get("creator"),
        language=language(said.get("language")),
        published=w3c_time(said.get("created", "")),
        modified=w3c_time(said.get("modified", "")),
        text=_text(office.xml(name) for _, name in parts),
        links=[Link(url) for url in absolute(_relations(links), base)],
        details={
            **{name.lower(): _number(counted.get(name.lower())) for name in _STATISTICS},
            "keywords": said.get("keywords"),
            "sheets": [one.get("name") for one in sheets.iter() if local(one) == "sheet"]
            if sheets is not None
            else None,
        },
    )


def _read_odf(office: Zipped, base: str) -> Facts:
    meta = office.xml("meta.xml") if "meta.xml" in office else None
    said = first_texts(meta) if meta is not None else {}
    content = office.xml("content.xml")
    counts = {
        etree.QName(name).localname.removesuffix("-count") + "s": _number(value)
        for element in (meta.iter() if meta is not None else ())
        if local(element) == "document-statistic"
        for name, value in element.attrib.items()
    }
    addresses = (
        value
        for element in content.iter()
        if local(element) == "a"
        for name, value in element.attrib.items()
        if etree.QName(name).localname == "href"
    )
    return Facts(
        title=said.get("title"),
        description=said.get("description") or said.get("subject"),
        author=said.get("creator") or said.get("initial-creator"),
        language=language(said.get("language")),
        published=w3c_time(said.get("creation-date", "")),
        modified=w3c_time(said.get("date", "")),
        text=_text([content]),
        links=[Link(url) for url in absolute(map(str, addresses), base)],
        details={"application": said.get("generator"), **counts},
    )


def _read_ole(document: Document) -> Facts:
    try:
        with olefile.OleFileIO(document.open()) as file:
            said = file.get_metadata()
            streams = {stream[0] for stream in file.listdir()}
    except Exception as error:  # olefile raises whatever it stumbles over
        raise UnreadableDocument(f"is broken: {error}") from error
    if "EncryptedPackage" in streams:
        raise UnreadableDocument("is protected by a password")
    details: dict[str, Any] = {
        "pages": said.num_pages,
        "words": said.num_words,
        "slides": said.slides,
        "application": _decoded(said.creating_application),
        "company": _decoded(said.company),
        "keywords": _decoded(said.keywords),
    }
    return Facts(
        title=_decoded(said.title),
        description=_decoded(said.subject),
        author=_decoded(said.author),
        published=said.create_time if isinstance(said.create_time, datetime) else None,
        modified=said.last_saved_time if isinstance(said.last_saved_time, datetime) else None,
        details={name: value for name, value in details.items() if value},
    )


def _text(roots: Iterable[etree._Element]) -> str | None:
    """What is written, with a space after each paragraph."""
    pieces: list[str] = []
    length = 0
    for root in roots:
        for piece in _pieces(root):
            pieces.append(piece)
            length += len(piece)
            if length > MAX_TEXT:
                return "".join(pieces)
    return "".join(pieces) or None


def _pieces(root: etree._Element) -> Iterator[str]:
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if event == "start":
            yield element.text or ""
        else:
            if local(element) in _PARAGRAPHS:
                yield " "
            yield element.tail or ""


def _relations(roots: Iterable[etree._Element]) -> Iterator[str]:
    for root in roots:
        for relation in root.iter():
            if relation.get("TargetMode") == "External" and str(relation.get("Type")).endswith("/hyperlink"):
                yield str(relation.get("Target") or "")


def _number(text: object) -> int | str | None:
    return (
        int(text)
        if isinstance(text, str) and text.isdecimal() and len(text) < 12
        else str(text or "") or None
    )


def _decoded(value: object) -> str | None:
    """Text of a property, whose code page olefile leaves to us."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value.decode("cp1252", "replace")
    return value if isinstance(value, str) else None
