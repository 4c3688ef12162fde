"""Other engines with the same titles and texts, each as its documentation begins: all words, or else any word."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import tantivy

from benchmarks.contender import PEERS, PROGRAMS, Contender

_WORD = re.compile(r"\w+")
BM25S = Contender("bm25s", "bm25s", lambda task: [], peer="bm25s")


class Text(NamedTuple):
    """A page: its URL, title and text."""

    url: str
    title: str
    text: str


class Answers(NamedTuple):
    """The first results of each query, and the CPU of a query in milliseconds."""

    urls: list[list[str]]
    milliseconds: float


FIRST = 10


def timed(queries: Sequence[str], search: Callable[[str], list[str]]) -> Answers:
    """Returns the answers; the first query, which may open files, is asked before the measurement too."""
    search(queries[0])
    began = time.process_time()
    urls = [search(query) for query in queries]
    return Answers(urls, (time.process_time() - began) / len(queries) * 1_000)


def plain_tantivy(texts: Sequence[Text], queries: Sequence[str]) -> Answers:
    """Tantivy with its English stemmer."""
    builder = tantivy.SchemaBuilder().add_text_field("url", stored=True, tokenizer_name="raw")
    for field in ("title", "text"):
        builder.add_text_field(field, tokenizer_name="en_stem")
    index = tantivy.Index(builder.build())
    writer = index.writer()
    for page in texts:
        writer.add_document(tantivy.Document(url=page.url, title=page.title, text=page.text))
    writer.commit()
    index.reload()
    searcher = index.searcher()

    def search(query: str) -> list[str]:
        words = " ".join(_WORD.findall(query))
        for all_words in (True, False):
            parsed = index.parse_query(words, ["title", "text"], conjunction_by_default=all_words)
            if hits := searcher.search(parsed, FIRST).hits:
                return [searcher.doc(address)["url"][0] for _, address in hits]
        return []

    return timed(queries, search)


def fts5(texts: Sequence[Text], queries: Sequence[str]) -> Answers:
    """FTS5 of SQLite with its Porter stemmer."""
    database = sqlite3.connect(":memory:")
    database.execute(
        "CREATE VIRTUAL TABLE pages USING fts5(url UNINDEXED, title, text, tokenize='porter unicode61')"
    )
    database.executemany("INSERT INTO pages VALUES (?, ?, ?)", texts)

    def search(query: str) -> list[str]:
        for joint in (" ", " OR "):
            words = joint.join(f'"{word}"' for word in _WORD.findall(query))
            rows = database.execute(
                "SELECT url FROM pages WHERE pages MATCH ? ORDER BY rank LIMIT ?", (words, FIRST)
            ).fetchall()
            if rows:
                return [url for (url,) in rows]
        return []

    return timed(queries, search)


def bm25s(texts: Sequence[Text], queries: Sequence[str]) -> Answers | None:
    """bm25s with the Snowball stemmer, on titles and texts together; None if it cannot be installed."""
    if not BM25S.prepare():
        return None
    with tempfile.TemporaryDirectory(prefix="bench-search-") as folder:
        asked = Path(folder) / "asked.json"
        asked.write_text(
            json.dumps({"texts": [f"{page.title}\n{page.text}" for page in texts], "queries": queries})
        )
        command = [PEERS / "bm25s" / "bin" / "python", PROGRAMS / "bm25s_search.py", asked, str(FIRST)]
        answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    urls = [[texts[number].url for number in numbers] for numbers in answer["numbers"]]
    return Answers(urls, answer["milliseconds"])
