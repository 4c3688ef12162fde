"""Writes the importance of pages into their rows when a crawl is over.

A row gets the importance that its page had when it was fetched. Links that are found later still count, in the engine.
"""

from __future__ import annotations

import asyncio

from webcrawl.crawler.connection import Connection
from webcrawl.frontier.credit import worths
from webcrawl.policies.importance import importance
from webcrawl.urls.canonical import normalize


async def update_importance(connection: Connection, uri: str) -> int:
    """Updates the rows of the crawl in the metadata database; returns how many had another importance.

    Raises StoreError, and connection errors of the engine.
    """
    # imported here because SQLAlchemy is slow to import, and most commands do without it
    from webcrawl.stores.importance_column import ImportanceColumn

    column, after, updated = ImportanceColumn(uri), "", 0
    try:
        while rows := await asyncio.to_thread(column.read, connection.keys.crawl, after):
            known = await worths(connection.engine, connection.keys, [normalize(url) for url in rows])
            changed = {
                url: importance(worth)
                for (url, before), worth in zip(rows.items(), known, strict=True)
                if worth is not None and importance(worth) != before
            }
            await asyncio.to_thread(column.write, changed)
            after, updated = next(reversed(rows)), updated + len(changed)
    finally:
        column.close()
    return updated
