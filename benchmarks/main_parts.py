"""How well the main text is found in real pages whose annotations say which texts belong to it and which do not.

The archive is a tar file with one folder: `expected.json`, and the pages in `pages`. The JSON maps the URL of each page
to its `file`, the texts `with` that the main text must contain, and the texts `without` that it must not.

On pages of reference documentation from Debian packages, all words but those of menus belong to the main text.
"""

from __future__ import annotations

import json
import random
import re
import tarfile
import time
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser

from benchmarks.command import table
from benchmarks.sites import DOCS
from webcrawl.documents.document import Document
from webcrawl.documents.html.main_text import main_text
from webcrawl.documents.html.text import visible_text
from webcrawl.documents.mime.charset import charset_of

Extract = Callable[[bytes], str]
_WHITE_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"\w+")
_MENUS = (
    "nav, footer, script, style, noscript, select, button, .nosearch, .topNav, .bottomNav, .subNav, .legalCopy,"
    " .sub-nav, .top-nav, .flex-header"
)
_LISTS = re.compile(
    "src-html|class-use|/(?:allclasses|package-(?:frame|tree)|index|overview|constant|serialized|deprecated|help)"
)
_PAGES_OF_A_PACKAGE, _LEAST_WORDS = 60, 50


@dataclass(frozen=True, slots=True)
class AnnotatedPage:
    """A page, its URL, and texts that belong to its main text and that do not."""

    url: str
    body: bytes
    wanted: list[str]
    unwanted: list[str]


def annotated_pages(archive: Path) -> list[AnnotatedPage]:
    with tarfile.open(archive) as tar:
        files = {
            member.name.partition("/")[2]: file.read() for member in tar if (file := tar.extractfile(member))
        }
    return [
        AnnotatedPage(
            url,
            files[f"pages/{page['file']}"],
            list(map(_squeezed, page["with"])),
            list(map(_squeezed, page["without"])),
        )
        for url, page in json.loads(files["expected.json"]).items()
    ]


def this_project(body: bytes, content_type: str | None = None) -> str:
    tree = _tree(body, content_type)
    return main_text(tree) or visible_text(tree)


def reference_pages() -> dict[str, list[bytes]]:
    """Pages of installed packages: of SQLite, and of libraries in Java, without lists of all names."""
    folders = {"javadoc": sorted(DOCS.glob("lib*-java/api")), "SQLite": [DOCS / "sqlite3"]}
    return {
        name: [
            path.read_bytes()
            for folder in many
            for path in _sample(
                [path for path in sorted(folder.rglob("*.html")) if not _LISTS.search(str(path))]
            )
        ]
        for name, many in folders.items()
    }


def _sample(paths: list[Path]) -> list[Path]:
    return random.Random(1).sample(paths, min(len(paths), _PAGES_OF_A_PACKAGE))


def kept(body: bytes) -> float | None:
    """Returns the share of a page's words that its main text has; None for a page with few words."""
    tree = LexborHTMLParser(body)
    for node in tree.css(_MENUS):
        node.decompose()
    part = tree.css_first("main, [role=main]") or tree.body
    words, found = (
        Counter(_WORD.findall(text))
        for text in (visible_text(LexborHTMLParser((part and part.html) or "")), this_project(body))
    )
    return (words & found).total() / words.total() if words.total() >= _LEAST_WORDS else None


def report_reference() -> None:
    """Prints which part of the words of reference documentation the main text has."""
    rows = []
    for name, pages in reference_pages().items():
        shares = [share for share in map(kept, pages) if share is not None]
        if shares:
            rows.append([name, f"{len(shares)}", f"{sum(shares) / len(shares):.1%}"])
    print(table("documentation | pages: | words kept:", rows))


def all_text(body: bytes) -> str:
    return visible_text(_tree(body))


def others() -> dict[str, Extract]:
    """The other tools that are installed."""
    tools: dict[str, Extract] = {}
    try:
        import trafilatura

        tools["trafilatura"] = lambda body: trafilatura.extract(body) or ""
        tools["trafilatura, fast"] = lambda body: trafilatura.extract(body, fast=True) or ""
    except ImportError:
        print("trafilatura is left out: pip install trafilatura")
    try:
        from resiliparse.extract.html2text import extract_plain_text
        from resiliparse.parse.encoding import detect_encoding

        tools["resiliparse"] = lambda body: extract_plain_text(
            body.decode(detect_encoding(body), "replace"), main_content=True, alt_texts=False
        )
    except ImportError:
        print("resiliparse is left out: pip install resiliparse")
    return tools


def report_main_parts(archive: Path) -> None:
    """Prints the figures of all pages, and those of two halves.

    All pages of a domain are in one half.
    """
    pages = annotated_pages(archive)
    halves = [[page for page in pages if _half(page.url) == number] for number in range(2)]
    rows = []
    for name, extract in {"this project": this_project, **others(), "all text": all_text}.items():
        begun = time.process_time()
        texts = {page.url: _squeezed(extract(page.body)) for page in pages}
        each = (time.process_time() - begun) / len(pages) * 1e3
        values = [*measured(pages, texts), *(measured(half, texts)[2] for half in halves)]
        rows.append([name, *(f"{value:.3f}" for value in values), f"{each:.1f} ms"])
    print(f"\n{len(pages)} annotated pages, {len(halves[0])} in the first half\n")
    print(table("tool | precision: | recall: | F: | F, first half: | F, second half: | CPU a page:", rows))


def measured(pages: list[AnnotatedPage], texts: dict[str, str]) -> tuple[float, float, float]:
    """(precision, recall, their harmonic mean) of the annotated texts."""
    right = sum(text in texts[page.url] for page in pages for text in page.wanted)
    wrong = sum(text in texts[page.url] for page in pages for text in page.unwanted)
    precision = right / max(1, right + wrong)
    recall = right / max(1, sum(len(page.wanted) for page in pages))
    return precision, recall, harmonic_mean(precision, recall)


def harmonic_mean(precision: float, recall: float) -> float:
    return 2 * precision * recall / max(1e-9, precision + recall)


def _tree(body: bytes, content_type: str | None = None) -> LexborHTMLParser:
    charset = charset_of(content_type, body, "text/html")
    return Document(body, "text/html", charset, "http://a.example/").html


def _half(url: str) -> int:
    domain = ".".join((urlsplit(url).hostname or "").split(".")[-2:])
    return zlib.crc32(domain.encode()) % 2


def _squeezed(text: str) -> str:
    return _WHITE_SPACE.sub(" ", text).strip()
