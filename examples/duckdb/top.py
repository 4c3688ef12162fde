"""Prints the pages and hosts that rank highest: `python examples/duckdb/top.py FOLDER`. Needs duckdb."""

from __future__ import annotations

import sys

import duckdb

QUESTIONS = {
    "Pages by PageRank": """
        SELECT pagerank_position AS place, round(pagerank, 4) AS pagerank, in_degree AS links, url
        FROM '{folder}/pages/vertices.parquet' ORDER BY place LIMIT 10""",
    "Hosts by harmonic centrality": """
        SELECT harmonic_position AS place, round(harmonic, 2) AS harmonic, in_degree AS hosts, host
        FROM '{folder}/hosts/vertices.parquet' ORDER BY place LIMIT 10""",
    "Pages that much links to, and that link nowhere": """
        SELECT in_degree AS links, url
        FROM '{folder}/pages/vertices.parquet' WHERE out_degree = 0 ORDER BY links DESC, url LIMIT 10""",
}


def main(folder: str) -> None:
    for title, query in QUESTIONS.items():
        print(f"\n{title}")
        duckdb.sql(query.format(folder=folder)).show(max_width=150)


if __name__ == "__main__":
    main(sys.argv[1])
