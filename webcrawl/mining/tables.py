"""The tables that `scrapy mine` writes as Parquet files. A new file replaces that of the previous run in one step."""

from __future__ import annotations

from webcrawl.mining.workspace import Workspace
from webcrawl.stores.objects.store import ObjectStore

TABLES = {
    "patterns": "SELECT host, pattern, known, pages, value, uniqueness, weight "
    "FROM patterns LEFT JOIN weights USING (place) ORDER BY host, known DESC, pattern",
    "pairs": "SELECT a.host AS from_host, a.pattern AS from_pattern, b.host AS to_host, b.pattern AS to_pattern, "
    "pairs, from_pages, to_urls, uniqueness, coverage, contribution, validity "
    "FROM pairs JOIN patterns a ON a.place = from_place JOIN patterns b ON b.place = to_place "
    "ORDER BY from_host, pairs DESC, from_pattern, to_host, to_pattern",
    "blocks": "SELECT host, pattern, block, blocks.pages, links, targets, same, boilerplate "
    "FROM blocks JOIN patterns ON place = from_place ORDER BY host, links DESC, pattern, block",
    "pages": "SELECT url, host, pattern, kind, links, area, link_text, pages.text_length, share, value, "
    "rank AS hub_rank FROM pages JOIN page_kinds USING (url) JOIN urls USING (url) LEFT JOIN hubs USING (url) "
    "ORDER BY url",
    "hubs": "SELECT rank, url, new, unique_links, better, sooner, score FROM hubs ORDER BY rank",
    "anchors": "FROM anchors ORDER BY url",
}
"""The queries by name of the table; docs/reference/mining.md explains the columns."""


def write_tables(workspace: Workspace, store: ObjectStore) -> dict[str, int]:
    """Writes all tables; returns the numbers of rows by name."""
    rows: dict[str, int] = {}
    for name, query in TABLES.items():
        path, rows[name] = workspace.exported(query, f"{name}.parquet")
        store.put_file(path.name, path)
        path.unlink()
    return rows
