"""Tells index pages from content pages, and ranks hubs: pages on which new, good pages are found first.

page_kinds   url; links: distinct targets outside of boilerplate; area: targets in the block with the most targets;
             link_text: the characters of the link texts; share: link_text / text of the page; kind
hubs         url; new: URLs to which no page linked before; unique_links: new URLs to which no other page links;
             better: the mean rank of the values of new URLs, from 0 to 1; sooner: the lead over the next page that
             links to them, from 0 to 1; score, rank
"""

from __future__ import annotations

from webcrawl.mining.workspace import Workspace

LEAST_AREA = 5
LEAST_SHARE = 0.5
"""A page is an index if a block has at least this many links, and at least this share of the text is link text."""
DAY = 86_400_000_000
"""A day in microseconds. A URL that another page has a day later counts half as much as a URL on no other page."""
UNKNOWN = 0.5
"""The rank of a URL that was not fetched, or whose value is not known."""

_KINDS = f"""
CREATE TABLE page_kinds AS
WITH shown AS (
    SELECT from_url, to_url, text, links.block FROM links JOIN urls ON url = from_url
    LEFT JOIN blocks ON from_place = urls.place AND blocks.block = links.block
    WHERE element IN ('a', 'area') AND from_url <> to_url AND NOT coalesce(boilerplate, false)
), areas AS (
    SELECT from_url, max(links) AS area FROM (
        SELECT from_url, block, count(DISTINCT to_url) AS links FROM shown GROUP BY ALL
    ) GROUP BY from_url
), texts AS (
    SELECT from_url, count(DISTINCT to_url) AS links, coalesce(sum(length(text)), 0)::BIGINT AS link_text
    FROM shown GROUP BY from_url
)
SELECT url, coalesce(links, 0) AS links, coalesce(area, 0) AS area, coalesce(link_text, 0) AS link_text,
       text_length, link_text / nullif(greatest(text_length, link_text), 0) AS share,
       CASE WHEN text_length IS NULL THEN NULL
            WHEN area >= {LEAST_AREA} AND share >= {LEAST_SHARE} THEN 'index' ELSE 'content' END AS kind
FROM pages LEFT JOIN texts ON texts.from_url = url LEFT JOIN areas ON areas.from_url = url
"""
_HUBS = f"""
CREATE TABLE hubs AS
WITH ranks AS (
    SELECT url, percent_rank() OVER (ORDER BY value) AS rank FROM pages WHERE value IS NOT NULL
), yields AS (
    SELECT from_url, pages, coalesce(ranks.rank, {UNKNOWN}) AS worth,
           CASE WHEN next_time IS NULL THEN 1 ELSE (next_time - time) / (next_time - time + {DAY}) END AS ahead
    FROM first_links LEFT JOIN ranks ON url = to_url
), sums AS (
    SELECT from_url AS url, count(*) AS new, count(*) FILTER (pages = 1) AS unique_links, avg(worth) AS better,
           avg(ahead) AS sooner, sum(worth * ahead) AS score
    FROM yields GROUP BY from_url
)
SELECT *, row_number() OVER (ORDER BY score DESC, url) AS rank FROM sums
"""


def judge_pages(workspace: Workspace) -> None:
    """Adds the tables `page_kinds` and `hubs`; needs the tables of `webcrawl.mining.blocks`."""
    workspace.run(_KINDS)
    workspace.run(_HUBS)
