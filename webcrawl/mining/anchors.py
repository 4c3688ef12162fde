"""Collects the texts of the links to each page.

anchors   url; anchors: the distinct texts of links to it from other pages, a line each, the most frequent first;
          pages, hosts: the numbers of pages and hosts that link to it

A menu has the same text on all pages of a pattern, so links in boilerplate count once for each pattern.
"""

from __future__ import annotations

from webcrawl.mining.workspace import Workspace

MOST_TEXTS = 50
"""The most distinct texts of a URL."""

_ANCHORS = f"""
CREATE TABLE anchors AS
WITH texts AS (
    SELECT to_url, lower(trim(text)) AS words, any_value(trim(text) ORDER BY from_url) AS text,
           count(DISTINCT CASE WHEN boilerplate THEN urls.place ELSE from_url END) AS pages
    FROM links JOIN urls ON url = from_url
    LEFT JOIN blocks ON from_place = urls.place AND blocks.block = links.block
    WHERE from_url <> to_url AND trim(text) <> '' GROUP BY to_url, words
), best AS (
    SELECT * FROM texts QUALIFY row_number() OVER (PARTITION BY to_url ORDER BY pages DESC, words) <= {MOST_TEXTS}
), joined AS (
    SELECT to_url, string_agg(text, chr(10) ORDER BY pages DESC, words) AS anchors FROM best GROUP BY to_url
)
SELECT to_url AS url, anchors, count(DISTINCT from_url) AS pages, count(DISTINCT host) AS hosts
FROM joined JOIN links USING (to_url) JOIN urls ON url = from_url
WHERE from_url <> to_url GROUP BY to_url, anchors
"""


def collect_anchors(workspace: Workspace) -> None:
    """Adds the table `anchors`; needs the tables of `webcrawl.mining.blocks`."""
    workspace.run(_ANCHORS)
