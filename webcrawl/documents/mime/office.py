"""Reads office documents: metadata, text and links of OOXML and OpenDocument, and metadata of older binary formats."""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from lxml import etree

from webcrawl.config.libraries import missing
from webcrawl.documents.document import Document
from webcrawl.documents.mime.facts import MAX_TEXT, Facts, Link, absolute, language
from webcrawl.documents.mime.sitemap import w3c_time
from webcrawl.documents.mime.xml import first_texts, local, parse
from webcrawl.errors import UnreadableDocument

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# The main parts of OOXML documents whose relations name none; then the parts with the text of Excel and PowerPoint.
_MAIN_PARTS = ("word/document.xml", "xl/workbook.xml", "ppt/presentation.xml")
_TEXTS = re.compile(r"xl/sharedStrings\.xml|ppt/slides/slide(\d+)\.xml")
_SHEETS = re.compile(r"xl/worksheets/sheet(\d+)\.xml")
# The local names of elements that end a line, of elements that stand for a character, and of elements with invisible
# text (tracked deletions, field codes, formats, phonetic guides).
_PARAGRAPHS = frozenset({"p", "si", "is", "h", "table-cell"})
_CHARACTERS = {**dict.fromkeys(("br", "cr", "tab", "ptab", "line-break", "s"), " "), "noBreakHyphen": "-"}
_INVISIBLE = frozenset(
    {"del", "delText", "moveFrom", "tracked-changes", "instrText", "delInstrText", "automatic-styles", "rPh"}
)
_HYPERLINK = re.compile(r"""\bHYPERLINK\s+(?:"([^"\n]+)"|([^\s"\\]+))""")
_STATISTICS = ("Pages", "Words", "Slides", "Application", "Company")


def read(document: Document) -> Facts:
    """Returns the facts of an office document; raises UnreadableDocument if it is broken, locked or too large."""
    if document.start(len(_OLE)) == _OLE:
        return _read_ole(document)
    if document.start(2) != b"PK":
        raise UnreadableDocument("is broken, or not an office document")
    office = Zipped(document)
    if "[Content_Types].xml" in office:
        return _read_ooxml(office, document.url)
    if "content.xml" in office:
        return _read_odf(office, document.url)
    raise UnreadableDocument("is broken: it is a zip file, but not an office document")


def _read_ooxml(office: Zipped, base: str) -> Facts:
    start = office.part("_rels/.rels")
    name = _main_part(office, start)
    main = office.part(name) if name else None
    kind = local(main) if main is not None else ""
    if main is not None and kind == "document":
        text, fields = _text([main]), _fields(main)
    else:
        text, fields = _text(_parts(office)), []
    if main is None and not text and office.damage is not None:
        raise office.damage
    metadata = _metadata(office.part("docProps/core.xml"))
    counted = _metadata(office.part("docProps/app.xml"))
    others = (part for part in office.names if part.endswith(".rels") and part != "_rels/.rels")
    relations = (part for part in (start, *map(office.part, others)) if part is not None)
    addresses = _relations(relations) + fields
    return Facts(
        title=metadata.get("title"),
        description=metadata.get("description") or metadata.get("subject"),
        author=metadata.get("creator"),
        language=language(metadata.get("language")),
        published=w3c_time(metadata.get("created", "")),
        modified=w3c_time(metadata.get("modified", "")),
        text=text,
        links=[Link(url) for url in absolute(addresses, base)],
        details={
            **{name.lower(): _number(counted.get(name.lower())) for name in _STATISTICS},
            "keywords": metadata.get("keywords"),
            "sheets": [sheet.get("name") for sheet in main.iter("{*}sheet")]
            if main is not None and kind == "workbook"
            else None,
            **office.marks(),
        },
    )


def _metadata(root: etree._Element | None) -> dict[str, str]:
    return first_texts(root) if root is not None else {}


def _main_part(office: Zipped, relations: etree._Element | None) -> str | None:
    """Returns the name of the main part, which is not always word/document.xml for Word."""
    for relation in relations if relations is not None else ():
        if str(relation.get("Type")).endswith("/officeDocument"):
            name = posixpath.normpath(str(relation.get("Target") or "")).lstrip("/")
            if name in office:
                return name
    return next((name for name in _MAIN_PARTS if name in office), None)


def _parts(office: Zipped) -> Iterator[etree._Element]:
    """Yields the elements with the text of slides or sheets: of the table of strings, and of cells with text."""
    yield from (root for root in map(office.part, _numbered(office, _TEXTS)) if root is not None)
    for name in _numbered(office, _SHEETS):
        root = office.part(name, having=b"inlineStr")
        yield from root.iter("{*}is") if root is not None else ()


def _numbered(office: Zipped, pattern: re.Pattern[str]) -> list[str]:
    numbered = ((int(match[1] or 0), name) for name in office.names if (match := pattern.fullmatch(name)))
    return [name for _, name in sorted(numbered)]


def _read_odf(office: Zipped, base: str) -> Facts:
    content = office.xml("content.xml")
    meta = office.part("meta.xml")
    metadata = _metadata(meta)
    counts = {
        etree.QName(name).localname.removesuffix("-count") + "s": _number(value)
        for element in (meta.iter() if meta is not None else ())
        if local(element) == "document-statistic"
        for name, value in element.attrib.items()
    }
    addresses = filter(None, (_attribute(element, "href") for element in content.iter("{*}a")))
    return Facts(
        title=metadata.get("title"),
        description=metadata.get("description") or metadata.get("subject"),
        author=metadata.get("creator") or metadata.get("initial-creator"),
        language=language(metadata.get("language")),
        published=w3c_time(metadata.get("creation-date", "")),
        modified=w3c_time(metadata.get("date", "")),
        text=_text([content]),
        links=[Link(url) for url in absolute(addresses, base)],
        details={"application": metadata.get("generator"), **counts, **office.marks()},
    )


def _read_ole(document: Document) -> Facts:
    try:
        import olefile
    except ImportError:
        raise UnreadableDocument(
            str(missing("a document of an older format", "olefile", "documents"))
        ) from None
    try:
        with olefile.OleFileIO(document.open()) as file:
            metadata = file.get_metadata()
            streams = {stream[0] for stream in file.listdir()}
    except Exception as error:  # olefile raises many kinds of exceptions for damaged files
        raise UnreadableDocument(f"is broken: {error}") from error
    if "EncryptedPackage" in streams:
        raise UnreadableDocument("is protected by a password")
    details: dict[str, Any] = {
        "pages": metadata.num_pages,
        "words": metadata.num_words,
        "slides": metadata.slides,
        "application": _decoded(metadata.creating_application),
        "company": _decoded(metadata.company),
        "keywords": _decoded(metadata.keywords),
    }
    return Facts(
        title=_decoded(metadata.title),
        description=_decoded(metadata.subject),
        author=_decoded(metadata.author),
        published=metadata.create_time if isinstance(metadata.create_time, datetime) else None,
        modified=metadata.last_saved_time if isinstance(metadata.last_saved_time, datetime) else None,
        details={name: value for name, value in details.items() if value},
    )


def _text(roots: Iterable[etree._Element]) -> str | None:
    """Returns the visible text, with a space after each paragraph."""
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
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        name = local(element)
        if event == "end":
            if name in _PARAGRAPHS:
                yield " "
            yield element.tail or ""
        elif name in _INVISIBLE or _is_other_version(name, element):
            walk.skip_subtree()
        else:
            yield _CHARACTERS.get(name, "")
            yield element.text or ""


def _is_other_version(name: str, element: etree._Element) -> bool:
    """Returns whether an element repeats the previous element for other programs. Only the first version is read."""
    return name in ("Choice", "Fallback") and element.getprevious() is not None


def _relations(roots: Iterable[etree._Element]) -> list[str]:
    """Returns the addresses of hyperlinks in the relation tables of the parts."""
    return [
        str(relation.get("Target") or "")
        for root in roots
        for relation in root.iter()
        if relation.get("TargetMode") == "External" and str(relation.get("Type")).endswith("/hyperlink")
    ]


def _fields(root: etree._Element) -> list[str]:
    """Returns the addresses of hyperlinks that are fields. The code of a field may be split over several elements."""
    codes = []
    for element in root.iter("{*}instrText", "{*}fldChar", "{*}fldSimple"):
        if local(element) == "instrText":
            codes.append((element.text or "").replace("\n", " "))
        else:
            codes.append(f"\n{_attribute(element, 'instr') or ''}\n")
    return [quoted or bare for quoted, bare in _HYPERLINK.findall("".join(codes))]


def _attribute(element: etree._Element, name: str) -> str | None:
    """Returns the value of an attribute by its name without namespace."""
    return next(
        (str(value) for key, value in element.attrib.items() if etree.QName(key).localname == name), None
    )


def _number(text: object) -> int | str | None:
    return (
        int(text)
        if isinstance(text, str) and text.isdecimal() and len(text) < 12
        else str(text or "") or None
    )


def _decoded(value: object) -> str | None:
    """Decodes a property; olefile does not apply its code page."""
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value.decode("cp1252", "replace")
    return value if isinstance(value, str) else None


MAX_BYTES = 64 * 1024 * 1024
"""The most unpacked bytes of all members that are read."""
MAX_MEMBERS = 10_000
_AT_ONCE = 65_536


class Zipped:
    """The members of a zip file. `read` and `xml` raise UnreadableDocument if it is broken or too large.

    damage   the first error of a `part`, or None
    """

    def __init__(self, document: Document) -> None:
        self.damage: UnreadableDocument | None = None
        try:
            self._zip = zipfile.ZipFile(document.open())
            self.names = self._zip.namelist()
        except (zipfile.BadZipFile, zipfile.LargeZipFile, ValueError, NotImplementedError, OSError) as error:
            raise UnreadableDocument(f"is broken: {error}") from error
        if len(self.names) > MAX_MEMBERS:
            raise UnreadableDocument(f"has {len(self.names):,} members, more than {MAX_MEMBERS:,}")
        self._left = MAX_BYTES

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def read(self, name: str) -> bytes:
        """Returns the bytes of a member."""
        return b"".join(self._pieces(name))

    def xml(self, name: str) -> etree._Element:
        """Returns the root element of a member; see `parse`."""
        return parse(self.read(name))

    def part(self, name: str, *, having: bytes = b"") -> etree._Element | None:
        """Returns the root element of a member; None if it is missing or lacks `having`, or if it cannot be read."""
        if name not in self:
            return None
        try:
            data = self.read(name)
            return parse(data) if having in data else None
        except UnreadableDocument as error:
            self.damage = self.damage or error
            return None

    def marks(self) -> dict[str, bool]:
        """Returns the details of a document of which a part was not read: `cut` if it is too large, or `broken`."""
        if self.damage is None:
            return {}
        return {"cut": True} if self._left < 0 else {"broken": True}

    def _pieces(self, name: str) -> Iterator[bytes]:
        try:
            with self._zip.open(name) as member:
                while piece := member.read(_AT_ONCE):
                    self._left -= len(piece)
                    if self._left < 0:
                        raise UnreadableDocument(f"is larger than {MAX_BYTES:,} bytes when unpacked")
                    yield piece
        except KeyError:
            raise UnreadableDocument(f"is broken: it has no {name}") from None
        except RuntimeError as error:
            raise UnreadableDocument("is protected by a password") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OSError) as error:
            raise UnreadableDocument(f"is broken: {error}") from error
