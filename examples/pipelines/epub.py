"""EPUB: the metadata of a book, the text of its chapters, and their links."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

from selectolax.lexbor import LexborHTMLParser

from webcrawl.crawler.pages.mime_pipeline import MimePipeline
from webcrawl.documents.document import Document
from webcrawl.documents.html.text import visible_text
from webcrawl.documents.mime.facts import Facts, Link, absolute, language
from webcrawl.documents.mime.sitemap import w3c_time
from webcrawl.documents.mime.zipped import Zipped, first_texts, local
from webcrawl.documents.xhtml import expanded


class EpubPipeline(MimePipeline):
    """Reads EPUB."""

    types = frozenset({"application/epub+zip"})
    reader = f"{__name__}:read"


def read(document: Document) -> Facts:
    """Returns the facts of a book; raises UnreadableDocument."""
    book = Zipped(document)
    packages = _attributes(book, "META-INF/container.xml", "rootfile", "full-path")
    package = packages[0] if packages else "content.opf"
    metadata = first_texts(book.xml(package))
    chapters = [
        LexborHTMLParser(expanded(book.read(name)))
        for address in _attributes(book, package, "item", "href")
        if (name := posixpath.join(posixpath.dirname(package), unquote(address))) in book
        and name.endswith((".xhtml", ".html", ".htm"))
    ]
    addresses = [a.attributes["href"] or "" for chapter in chapters for a in chapter.css("a[href^=http]")]
    return Facts(
        title=metadata.get("title"),
        author=metadata.get("creator"),
        description=metadata.get("description"),
        language=language(metadata.get("language")),
        published=w3c_time(metadata.get("date", "")),
        text="\n".join(map(visible_text, chapters)),
        links=[Link(url) for url in absolute(addresses, document.url)],
        details={"chapters": len(chapters), "publisher": metadata.get("publisher")},
    )


def _attributes(book: Zipped, name: str, element: str, attribute: str) -> list[str]:
    """Returns an attribute of all elements of that name in one of the book's XML files."""
    return [
        value
        for one in book.xml(name).iter()
        if local(one) == element and isinstance(value := one.get(attribute), str)
    ]
