"""Finds the pieces of pages that are nearest to a question, with any server that returns vectors for texts.

    python examples/language_model/chunks.py data | python examples/language_model/ask.py --server URL --add
    python examples/language_model/ask.py --server URL "How do I ...?"

The server gets `POST {"model": ..., "input": [text, ...]}` and answers `{"data": [{"embedding": [...]}, ...]}`, as most
servers of models do. The pieces are kept in a SQLite file, by default `chunks.db`.
"""

from __future__ import annotations

import argparse
import heapq
import json
import math
import os
import sqlite3
import sys
from array import array
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from operator import mul
from urllib.request import Request, urlopen

_BATCH = 64
_TABLE = "CREATE TABLE IF NOT EXISTS chunks (id TEXT PRIMARY KEY, chunk TEXT, vector BLOB)"


def vectors(server: str, model: str, texts: list[str]) -> list[array[float]]:
    """Returns a vector of length 1 for each text. The variable `API_KEY` is the password, if the server needs one."""
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("API_KEY"):
        headers["Authorization"] = f"Bearer {key}"
    body = json.dumps({"model": model, "input": texts}).encode()
    with urlopen(Request(server, body, headers), timeout=120) as response:
        answers = [array("f", entry["embedding"]) for entry in json.load(response)["data"]]
    return [array("f", (value / (math.hypot(*answer) or 1) for value in answer)) for answer in answers]


def add(database: sqlite3.Connection, server: str, model: str, lines: Iterator[str]) -> int:
    """Stores the pieces that are new; returns their number. A page that has not changed costs nothing."""
    known = {name for (name,) in database.execute("SELECT id FROM chunks")}
    new = (line for line in lines if json.loads(line)["id"] not in known)
    number = 0
    while batch := list(islice(new, _BATCH)):
        texts = [json.loads(line)["text"] for line in batch]
        rows = zip(batch, vectors(server, model, texts), strict=True)
        values = [(json.loads(line)["id"], line, vector.tobytes()) for line, vector in rows]
        with database:
            database.executemany("INSERT OR REPLACE INTO chunks VALUES (?, ?, ?)", values)
        number += len(batch)
    return number


def nearest(database: sqlite3.Connection, wanted: array[float], most: int) -> list[dict[str, str]]:
    """Returns the pieces with the largest cosine, best first."""
    rows = database.execute("SELECT chunk, vector FROM chunks")
    scored = ((sum(map(mul, wanted, array("f", vector))), chunk) for chunk, vector in rows)
    return [json.loads(chunk) for _, chunk in heapq.nlargest(most, scored)]


def prompt(question: str, pieces: list[dict[str, str]]) -> str:
    """Returns a text for any model: the pieces with numbers, sources and dates, and the question."""
    quoted = [
        f"[{number}] {piece['url']} ({(piece['published_at'] or piece['fetched_at'])[:10]})\n{piece['text']}"
        for number, piece in enumerate(pieces, 1)
    ]
    order = "Answer from these texts alone, and name the numbers of those that you use."
    return "\n\n".join([*quoted, order, question])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("question", nargs="?")
    parser.add_argument("--server", required=True, help="the address for vectors")
    parser.add_argument("--model", default="default")
    parser.add_argument("--file", default="chunks.db")
    parser.add_argument("--add", action="store_true", help="add the pieces on standard input")
    parser.add_argument("--most", type=int, default=5, help="pieces in the answer (default: %(default)s)")
    options = parser.parse_args()
    with closing(sqlite3.connect(options.file)) as database:
        database.execute(_TABLE)
        if options.add:
            print(add(database, options.server, options.model, sys.stdin), "pieces added", file=sys.stderr)
        if options.question:
            (wanted,) = vectors(options.server, options.model, [options.question])
            print(prompt(options.question, nearest(database, wanted, options.most)))
