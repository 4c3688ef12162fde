"""Judges pages by their links: boilerplate, index pages, hubs, and the texts of the links to a page.

blocks      from_place, block; pages: those with the block; links and distinct targets of the block; same: the share
            of its links whose targets at least half of these pages have; boilerplate
content     the distinct links of pages outside of boilerplate: from_place, to_place, from_url, to_url
page_kinds  url; links: distinct targets outside of boilerplate; area: targets in the block with the most targets;
            link_text: the characters of the link texts; share: link_text / text of the page; kind
hubs        url; new: sound pages to which no page linked before; unique_links: those to which no other page links;
            readings: how many readings of the hub had a new link; better: the mean rank of the values of new pages,
            from 0 to 1; sooner: the lead over the next page that links to them, from 0 to 1; score, rank
anchors     url; anchors: the distinct texts of links to it from other pages, a line each, the most frequent first;
            pages, hosts: the numbers of pages and hosts that link to it

A block is a position in a page, by the hash in the link store. `from_place` is the host and pattern of its pages.
Boilerplate are blocks, such as menus and footers, that are the same on the pages of a pattern. A menu has the same text
on all of them, so links in boilerplate count once for each pattern in `anchors`.
"""

from __future__ import annotations

from collections.abc import Mapping

from webcrawl.mining.workspace import MiningTables
from webcrawl.policies.mined import mark

LEAST_PAGES = 4
"""The fewest pages of a pattern with a block for which the block is judged."""
SHARED = 0.5
"""A target counts as the same if at least this share of the pages with the block has it."""
SAME = 0.75
"""A block is boilerplate if at least this share of its links has such targets."""
MOST_MARKS = 500_000
"""The most boilerplate links that workers get, 8 bytes each: the links on the most pages."""

_PLACED = """
SELECT DISTINCT a.place AS from_place, b.place AS to_place, block, from_url, to_url
FROM links JOIN urls AS a ON a.url = from_url JOIN urls AS b ON b.url = to_url
"""
_TARGETS = """
SELECT from_place, block, to_url, count(*) AS pages FROM placed WHERE block IS NOT NULL
GROUP BY from_place, block, to_url
"""
_BLOCKS = f"""
WITH sizes AS (
    SELECT from_place, block, count(DISTINCT from_url) AS pages FROM placed WHERE block IS NOT NULL
    GROUP BY from_place, block
), counted AS (
    SELECT from_place, block, sizes.pages AS pages, CAST(sum(targets.pages) AS BIGINT) AS links, count(*) AS targets,
        CAST(coalesce(sum(targets.pages) FILTER (WHERE targets.pages >= {SHARED} * sizes.pages), 0) AS BIGINT) AS shared
    FROM sizes JOIN targets USING (from_place, block) GROUP BY from_place, block, sizes.pages
)
SELECT from_place, block, pages, links, targets, shared / links AS same,
       pages >= {LEAST_PAGES} AND shared / links >= {SAME} AS boilerplate
FROM counted
"""
_CONTENT = """
SELECT DISTINCT from_place, to_place, from_url, to_url
FROM placed ANTI JOIN (SELECT from_place, block FROM blocks WHERE boilerplate) AS marked USING (from_place, block)
"""
_MARKS = f"""
SELECT from_place, to_url FROM targets JOIN blocks USING (from_place, block)
WHERE boilerplate AND targets.pages >= {SHARED} * blocks.pages
ORDER BY targets.pages DESC, from_place, to_url LIMIT {MOST_MARKS}
"""


def find_blocks(workspace: MiningTables) -> None:
    """Adds the tables `blocks` and `content`; needs `urls` of `webcrawl.mining.patterns`."""
    for name, query in (
        ("placed", _PLACED),
        ("targets", _TARGETS),
        ("blocks", _BLOCKS),
        ("content", _CONTENT),
    ):
        workspace.create(name, query)


def marks(workspace: MiningTables) -> Mapping[str, frozenset[bytes]]:
    """Returns the hashes of the targets of boilerplate by the host and pattern of the pages."""
    marked: dict[str, set[bytes]] = {}
    for batch in workspace.rows(_MARKS):
        for pattern, url in batch:
            marked.setdefault(pattern, set()).add(mark(url))
    return {pattern: frozenset(hashes) for pattern, hashes in marked.items()}


LEAST_AREA = 5
LEAST_SHARE = 0.5
"""A page is an index if a block has at least this many links, and at least this share of the text is link text."""
DAY = 86_400_000_000
"""A day in microseconds. A URL that another page has a day later counts half as much as a URL on no other page."""
UNKNOWN = 0.5
"""The rank of a page whose value is not known."""
LEAST_NEW = 2
"""A page is no hub before this many new pages: a single one may be chance."""

_KINDS = f"""
WITH shown AS (
    SELECT from_url, to_url, text, links.block FROM links JOIN urls ON url = from_url
    LEFT JOIN blocks ON from_place = urls.place AND blocks.block = links.block
    WHERE element IN ('a', 'area') AND from_url <> to_url AND NOT coalesce(boilerplate, false)
), areas AS (
    SELECT from_url, max(links) AS area FROM (
        SELECT from_url, block, count(DISTINCT to_url) AS links FROM shown GROUP BY from_url, block
    ) AS sizes GROUP BY from_url
), texts AS (
    SELECT from_url, count(DISTINCT to_url) AS links, CAST(coalesce(sum(length(text)), 0) AS BIGINT) AS link_text
    FROM shown GROUP BY from_url
)
SELECT url, coalesce(links, 0) AS links, coalesce(area, 0) AS area, coalesce(link_text, 0) AS link_text,
       text_length, link_text / nullif(greatest(text_length, link_text), 0) AS share,
       CASE WHEN text_length IS NULL OR NOT sound THEN NULL
            WHEN area >= {LEAST_AREA} AND share >= {LEAST_SHARE} THEN 'index' ELSE 'content' END AS kind
FROM pages LEFT JOIN texts ON texts.from_url = url LEFT JOIN areas ON areas.from_url = url
"""
# Links to what was never fetched, out of scope or broken tell nothing. The square root makes a page that has something
# new at every reading better than one long list, such as a changelog, that was read once.
# The rank of a value is that of percent_rank(), for which Spark would sort all pages on one machine. Scores are
# rounded, since sums depend on the order of their terms in the last digit.
_HUBS = f"""
WITH sizes AS (
    SELECT value, count(*) AS pages FROM pages WHERE value IS NOT NULL GROUP BY value
), ranks AS (
    SELECT value, coalesce(CAST(sum(pages) OVER (
        ORDER BY value ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS BIGINT), 0) / greatest((SELECT count(value) FROM pages) - 1, 1) AS rank FROM sizes
), yields AS (
    SELECT from_url, time, pages, coalesce(ranks.rank, {UNKNOWN}) AS worth,
           CASE WHEN next_time IS NULL THEN 1 ELSE (next_time - time) / (next_time - time + {DAY}) END AS ahead
    FROM first_links JOIN pages AS target ON target.url = to_url AND target.sound
    JOIN pages AS hub ON hub.url = from_url AND hub.sound LEFT JOIN ranks ON ranks.value = target.value
), by_reading AS (
    SELECT from_url, count(*) AS new, count(*) FILTER (WHERE pages = 1) AS unique_links, sum(worth) AS worth,
           sum(ahead) AS ahead, sqrt(sum(worth * ahead)) AS score
    FROM yields GROUP BY from_url, time
), sums AS (
    SELECT from_url AS url, CAST(sum(new) AS BIGINT) AS new, CAST(sum(unique_links) AS BIGINT) AS unique_links,
           count(*) AS readings, sum(worth) / sum(new) AS better, sum(ahead) / sum(new) AS sooner,
           round(sum(score), 9) AS score
    FROM by_reading GROUP BY from_url
)
SELECT * FROM sums WHERE new >= {LEAST_NEW}
"""


def judge_pages(workspace: MiningTables) -> None:
    """Adds the tables `page_kinds` and `hubs`; needs the tables `blocks` and `content`."""
    workspace.create("page_kinds", _KINDS)
    workspace.ranked("hubs", _HUBS, "score DESC, url")


MOST_TEXTS = 50
"""The most distinct texts of a URL."""

_ANCHORS = f"""
WITH texts AS (
    SELECT to_url, lower(trim(text)) AS words, min_by(trim(text), (from_url, text)) AS text,
           count(DISTINCT CASE WHEN boilerplate THEN urls.place ELSE from_url END) AS pages
    FROM links JOIN urls ON url = from_url
    LEFT JOIN blocks ON from_place = urls.place AND blocks.block = links.block
    WHERE from_url <> to_url AND trim(text) <> '' GROUP BY to_url, lower(trim(text))
), numbered AS (
    SELECT *, row_number() OVER (PARTITION BY to_url ORDER BY pages DESC, words) AS number FROM texts
), joined AS (
    SELECT to_url, {{lines}} AS anchors FROM numbered WHERE number <= {MOST_TEXTS} GROUP BY to_url
)
SELECT to_url AS url, anchors, count(DISTINCT from_url) AS pages, count(DISTINCT host) AS hosts
FROM joined JOIN links USING (to_url) JOIN urls ON url = from_url
WHERE from_url <> to_url GROUP BY to_url, anchors
"""


def collect_anchors(workspace: MiningTables) -> None:
    """Adds the table `anchors`; needs the tables `blocks` and `content`."""
    workspace.create("anchors", _ANCHORS.format(lines=workspace.lines("text", "number")))
