"""Finds boilerplate: blocks of links, such as menus and footers, that are the same on the pages of a pattern.

blocks    from_place, block; pages: those with the block; links and distinct targets of the block; same: the share
          of its links whose targets at least half of these pages have; boilerplate
content   the distinct links of pages outside of boilerplate: from_place, to_place, from_url, to_url

A block is a position in a page, by the hash in the link store. `from_place` is the host and pattern of its pages.
"""

from __future__ import annotations

from collections.abc import Mapping

from webcrawl.mining.workspace import Workspace
from webcrawl.policies.mined import mark

LEAST_PAGES = 4
"""The fewest pages of a pattern with a block for which the block is judged."""
SHARED = 0.5
"""A target counts as the same if at least this share of the pages with the block has it."""
SAME = 0.75
"""A block is boilerplate if at least this share of its links has such targets."""
MOST_MARKS = 500_000
"""The most boilerplate links that workers get, 8 bytes each: the links on the most pages."""

_BLOCKS = f"""
CREATE TABLE placed AS
SELECT DISTINCT a.place AS from_place, b.place AS to_place, block, from_url, to_url
FROM links JOIN urls a ON a.url = from_url JOIN urls b ON b.url = to_url;

CREATE TABLE targets AS
SELECT from_place, block, to_url, count(*) AS pages FROM placed WHERE block IS NOT NULL GROUP BY ALL;

CREATE TABLE blocks AS
WITH sizes AS (
    SELECT from_place, block, count(DISTINCT from_url) AS pages FROM placed WHERE block IS NOT NULL GROUP BY ALL
)
SELECT from_place, block, sizes.pages AS pages, sum(targets.pages)::BIGINT AS links, count(*) AS targets,
       coalesce(sum(targets.pages) FILTER (targets.pages >= {SHARED} * sizes.pages), 0) / sum(targets.pages) AS same,
       sizes.pages >= {LEAST_PAGES} AND same >= {SAME} AS boilerplate
FROM sizes JOIN targets USING (from_place, block) GROUP BY from_place, block, sizes.pages;

CREATE TABLE content AS
SELECT DISTINCT from_place, to_place, from_url, to_url
FROM placed ANTI JOIN (FROM blocks WHERE boilerplate) marked USING (from_place, block)
"""
_MARKS = f"""
SELECT from_place, to_url FROM targets JOIN blocks USING (from_place, block)
WHERE boilerplate AND targets.pages >= {SHARED} * blocks.pages
ORDER BY targets.pages DESC, from_place, to_url LIMIT ?
"""


def find_blocks(workspace: Workspace) -> None:
    """Adds the tables `blocks` and `content`; needs `urls` of `webcrawl.mining.patterns`."""
    workspace.run(_BLOCKS)


def marks(workspace: Workspace) -> Mapping[str, frozenset[bytes]]:
    """Returns the hashes of the targets of boilerplate by the host and pattern of the pages."""
    marked: dict[str, set[bytes]] = {}
    for batch in workspace.rows(_MARKS, [MOST_MARKS]):
        for pattern, url in batch:
            marked.setdefault(pattern, set()).add(mark(url))
    return {pattern: frozenset(hashes) for pattern, hashes in marked.items()}
