"""Reads WET files and Parquet tables of texts with datatrove and Hugging Face datasets.

python readers_texts.py ASKED (JSON: "wet", "page_wet", "texts": folders; "sentences": what the texts of pages have)
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable

from datasets import load_dataset
from datatrove.pipeline.readers import ParquetReader, WarcReader

asked = json.loads(sys.argv[1])


def figures(texts: Iterable[str]) -> dict[str, int]:
    texts = list(texts)
    words = {word for text in texts for word in text.split()}
    return {
        "documents": len(texts),
        "documents with the sidebar": sum("Sidebar of" in text for text in texts),
        "pages whose sentence is read": len(words.intersection(asked["sentences"])),
    }


wet = figures(document.text for document in WarcReader(asked["wet"], glob_pattern="*.gz").run())
whole = figures(document.text for document in WarcReader(asked["page_wet"], glob_pattern="*.gz").run())
reader = ParquetReader(asked["texts"], glob_pattern="*.parquet", text_key="text", id_key="url")
rows = figures(document.text for document in reader.run())
with tempfile.TemporaryDirectory() as cache:
    data = load_dataset("parquet", data_files=f"{asked['texts']}/*.parquet", split="train", cache_dir=cache)
    columns = [text for text in data["text"] if text]
answers = {
    "datatrove": {
        **wet,
        "whole pages with the sidebar": whole["documents with the sidebar"],
        "texts in Parquet": rows["documents"],
    },
    "datasets": {"texts in Parquet": len(columns)},
}
print(json.dumps(answers))
