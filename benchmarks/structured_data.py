"""What extruct reads in the structured data of real pages, beside what this project reads.

    pip install extruct
    python -m benchmarks.structured_data FOLDER     # of HTML files

Properties are compared as pairs of a name without its vocabulary and a text without white space, each once a page,
because the two libraries nest items and join texts in different ways. Empty texts, items at the top without properties
and ID, and the slash at the end of a URL do not count. `Equal` pages have the same pairs; `missed` are pairs that
extruct alone has, `more` are those that this project alone has.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import extruct

from benchmarks.command import table
from webcrawl.documents.document import Document
from webcrawl.documents.html.structured_data import StructuredData

_Pairs = set[tuple[str, str]]
_SAMPLE = 300
"""Longer texts are compared by so many characters: both libraries have limits of their own."""
_GRAPHS = ("og:", "article:", "book:", "profile:", "video:", "music:")
_KEYS = {"type", "id", "properties", "value"}
"""The keys of an item of microdata as extruct has it; "value" is the text of an item without properties."""
_DECLARATION = re.compile(r"^\s*<\?xml[^>]*>")
_VOCABULARY = re.compile(r"^.*[/#]|^(schema|s):")


def main(folder: Path) -> None:
    """Prints the shares of equal pages and properties of each syntax."""
    counts = {name: Counter[str]() for name in _OURS}
    examples: dict[str, list[str]] = {name: [] for name in _OURS}
    for number, path in enumerate(sorted(folder.glob("*.html"))):
        url, html = f"https://page{number}.example/", path.read_bytes().decode("utf-8", "replace")
        structured = StructuredData(Document(html.encode(), "text/html", "utf-8", url))
        for name, read in _OURS.items():
            truth, ours = set(_truth(name, html, url)), set(read(structured))
            count(counts[name], truth, ours)
            if truth != ours:
                examples[name].append(f"{path.name}: missed {_few(truth - ours)}, more {_few(ours - truth)}")
    rows = [[name, *map(str, shares(counts[name]))] for name in _OURS]
    print(table("syntax | pages | equal | properties | read | missed | more", rows))
    for name, lines in examples.items():
        print(f"\n{name}:", *lines[:20], sep="\n  ")


def count(counts: Counter[str], truth: _Pairs, ours: _Pairs) -> None:
    """Adds a page to the counts of a syntax."""
    if truth or ours:
        counts["pages"] += 1
        counts["equal"] += truth == ours
        counts["truth"] += len(truth)
        counts["missed"] += len(truth - ours)
        counts["more"] += len(ours - truth)


def shares(counts: Counter[str]) -> tuple[object, ...]:
    """Returns the cells of a syntax: numbers of pages and properties, with the shares that are equal and read."""
    read = counts["truth"] - counts["missed"]
    equal, known = (
        f"{part / max(1, whole):.1%}"
        for part, whole in ((counts["equal"], counts["pages"]), (read, counts["truth"]))
    )
    return counts["pages"], equal, counts["truth"], known, counts["missed"], counts["more"]


def _truth(name: str, html: str, url: str) -> Iterator[tuple[str, str]]:
    """Yields the pairs that extruct reads; none for a page that it cannot read."""
    syntax = name.replace(" ", "").lower()
    with suppress(Exception):
        # lxml refuses texts that declare an encoding
        html = _DECLARATION.sub("", html)
        found = extruct.extract(html, base_url=url, syntaxes=[syntax], errors="ignore").get(syntax, [])
        if syntax == "opengraph":
            properties = (pair for graph in found for pair in graph["properties"])
            yield from (
                _pair(*pair) for pair in properties if pair[0].startswith(_GRAPHS) and pair[1].strip()
            )
        else:
            yield from _leaves(found)


def _graph(structured: StructuredData) -> Iterator[tuple[str, str]]:
    for name, content in structured.open_graph.items():
        for text in content if isinstance(content, list) else [content]:
            if name.startswith(_GRAPHS):
                yield _pair(name, text)


_OURS: Mapping[str, Callable[[StructuredData], Iterator[tuple[str, str]]]] = {
    "JSON-LD": lambda structured: _leaves(structured.json_ld),
    "Microdata": lambda structured: _leaves(structured.microdata),
    "Open Graph": _graph,
}


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yields the texts and numbers in items of either library, with the names of their properties."""
    if isinstance(value, list):
        for part in value:
            yield from _leaves(part, name)
    elif not isinstance(value, dict):
        if value not in (None, ""):
            yield _pair(name, value)
    elif not value.keys() - _KEYS and value.keys() & {"properties", "value"}:
        if name or value.get("properties") or value.get("id"):
            yield from _item(value)
    else:
        for key, part in value.items():
            if key != "@context":
                yield from _leaves(part, name if key in ("@value", "@graph", "properties") else key)


def _item(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the pairs of an item of microdata as extruct has it."""
    yield from _leaves(item.get("type"), "@type")
    yield from _leaves(item.get("id"), "@id")
    for name, part in item.get("properties", {}).items():
        yield from _leaves(part, name)


def _pair(name: str, value: object) -> tuple[str, str]:
    text = "".join(str(value).split())
    if name == "@type":
        text = _VOCABULARY.sub("", text)
    return _VOCABULARY.sub("", name).lower(), text[:_SAMPLE].removesuffix("/")


def _few(pairs: _Pairs) -> str:
    return ", ".join(f"{name}={text[:40]}" for name, text in sorted(pairs)[:3]) or "nothing"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
