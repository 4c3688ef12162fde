"""bm25s: indexes texts and answers queries, as its documentation begins.

python bm25s_search.py ASKED FIRST (ASKED: JSON with "texts" and "queries"; FIRST: results of a query)
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import bm25s
import Stemmer

asked = json.loads(Path(sys.argv[1]).read_text())
first, stemmer = int(sys.argv[2]), Stemmer.Stemmer("english")
retriever = bm25s.BM25()
retriever.index(
    bm25s.tokenize(asked["texts"], stopwords="en", stemmer=stemmer, show_progress=False), show_progress=False
)


def search(query: str) -> list[int]:
    words = bm25s.tokenize(query, stopwords="en", stemmer=stemmer, show_progress=False)
    documents, scores = retriever.retrieve(words, k=first, show_progress=False)
    return [int(document) for document, score in zip(documents[0], scores[0], strict=True) if score > 0]


search(asked["queries"][0])
began = time.process_time()
numbers = [search(query) for query in asked["queries"]]
seconds = time.process_time() - began
print(json.dumps({"numbers": numbers, "milliseconds": seconds / len(numbers) * 1000}))
