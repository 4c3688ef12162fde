"""Prints a report of an exported crawl: `python examples/duckdb/report.py FOLDER`. Needs duckdb."""

from __future__ import annotations

import sys

import duckdb

QUESTIONS = {
    "Pages by type": """
        SELECT mime_type, count(*) AS pages, round(sum(length) / 1e6, 1) AS megabytes
        FROM pages WHERE state = 'fetched' GROUP BY ALL ORDER BY pages DESC, mime_type LIMIT 10""",
    "Hosts with the most pages": """
        SELECT host, count(*) AS urls, count(*) FILTER (status = 200) AS good,
               round(median(latency) * 1000) AS milliseconds
        FROM pages GROUP BY ALL ORDER BY urls DESC, host LIMIT 10""",
    "Links that lead nowhere": """
        SELECT url, coalesce(status::VARCHAR, error) AS answer, referrer
        FROM pages WHERE state IN ('missing', 'refused', 'broken', 'failed') ORDER BY url LIMIT 20""",
    "Copies": """
        SELECT duplicate_kind AS kind, count(*) AS pages
        FROM pages WHERE duplicate_of IS NOT NULL GROUP BY ALL ORDER BY kind""",
}


def main(folder: str) -> None:
    database = duckdb.connect()
    # show times as they are stored
    database.execute("SET TimeZone = 'UTC'")
    files = database.from_parquet(f"{folder}/**/*.parquet", hive_partitioning=True)
    files.create_view("pages")
    for title, query in QUESTIONS.items():
        print(f"\n{title}")
        database.sql(query).show(max_width=150)


if __name__ == "__main__":
    main(sys.argv[1])
