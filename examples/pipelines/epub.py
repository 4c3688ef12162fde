"""EPUB: the metadata of a book, the text of its chapters, and their links."""

from __future__ import annotations

import posixpath
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import unquote, urljoin

from webcrawl import Document, Facts, Link, MimePipeline, Zipped, visible_text


class EpubPipeline(MimePipeline):
    """Reads EPUB."""

    types = frozenset({"application/epub+zip"})
    reader = f"{__name__}:read"


def read(document: Document) -> Facts:
    """Returns the facts of a book; raises UnreadableDocument."""
    book = Zipped(document)
    packages = _attributes(book, "META-INF/container.xml", "rootfile", "full-path")
    package = packages[0] if packages else "content.opf"
    metadata = _first_texts(book, package)
    chapters = [
        Document(book.read(name), "application/xhtml+xml", "utf-8", document.url)
        for address in _attributes(book, package, "item", "href")
        if (name := posixpath.join(posixpath.dirname(package), unquote(address))) in book
        and name.endswith((".xhtml", ".html", ".htm"))
    ]
    links = [link for chapter in chapters for link in chapter.html.css("a[href^=http]")]
    return Facts(
        title=metadata.get("title"),
        author=metadata.get("creator"),
        description=metadata.get("description"),
        language=metadata.get("language", "").partition("-")[0].lower() or None,
        published=_time(metadata.get("date", "")),
        text="\n".join(visible_text(chapter.html) for chapter in chapters),
        links=[Link(urljoin(document.url, link.attributes["href"] or "")) for link in links],
        details={"chapters": len(chapters), "publisher": metadata.get("publisher")},
    )


def _attributes(book: Zipped, name: str, element: str, attribute: str) -> list[str]:
    """Returns an attribute of all elements of that name in one of the book's XML files."""
    return [
        node.attrib[attribute] for node in book.xml(name).iter(f"{{*}}{element}") if attribute in node.attrib
    ]


def _first_texts(book: Zipped, name: str) -> dict[str, str]:
    """Returns the first text of each name of elements in one of the book's XML files."""
    texts: dict[str, str] = {}
    for node in book.xml(name).iter("{*}*"):
        texts.setdefault(str(node.tag).rpartition("}")[2], (node.text or "").strip())
    return texts


def _time(date: str) -> datetime | None:
    with suppress(ValueError):
        return datetime.fromisoformat(date).replace(tzinfo=UTC)
    return None
