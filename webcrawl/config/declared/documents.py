"""Settings for reading documents and finding duplicates."""

from __future__ import annotations

from webcrawl.config.extraction import ExtractRules
from webcrawl.config.kinds import Choice, Number, Whole
from webcrawl.config.setting import Setting, SettingGroup

MOST_DISTANCE = 7
"""With a larger distance, the blocks of the index would be so short that each matches a large part of all texts."""

LEAST_HOT_PAGES = 1_000
"""With fewer, files would be written all the time."""

READING = SettingGroup(
    "Read documents",
    Setting(
        "HTML_PROCESS",
        True,
        "Parses HTML pages of more than 4 KiB in separate processes, so that a page that hangs or crashes the "
        "parser loses no other page. Large pages that take over a second go to the processes for other types. "
        "`False` may be faster with as many workers as cores, and slower with fewer; it takes up to 1.3 times the "
        "memory. See [Performance](performance.md).",
    ),
    Setting(
        "MIME_TIMEOUT",
        20,
        "Seconds for reading one document. After that the process is killed, and the page gets a "
        "`processing_error`. On Linux, time in which the process waits for a processor does not count, up to nine "
        "times as much.",
        values=Number(least=0.1, most=3_600),
        example=60,
    ),
    Setting(
        "MIME_MEMORY",
        1_073_741_824,
        "Address space of each process that reads documents, in bytes. One document other than HTML may take an "
        "eighth of it, at least 128 MiB, and 48 bytes more per byte of the document. If it needs more, it gets a "
        "`processing_error`. On macOS there are no such limits.",
        values=Whole(least=256 * 1024 * 1024),
        example=2_147_483_648,
    ),
    Setting(
        "EXTRACT",
        [],
        "Rules that [extract fields](../guide/extract-fields.md) of HTML pages into typed columns: a rule, a list of "
        "rules, or the name of a YAML file with them. A rule has `match`, a regular expression for URLs, and `fields`, "
        "a dict from names to selectors.",
        values=ExtractRules(),
        example=[{"match": "/product/", "fields": {"price": {"type": "float", "select": "css:.price"}}}],
    ),
    Setting(
        "STRUCTURED_DATA",
        False,
        "Stores the [structured data](../guide/extract-fields.md#structured-data) of HTML pages in column "
        "`structured_data`: JSON-LD, microdata, RDFa and Open Graph.",
    ),
    intro="[MIME types](../guide/mime-types.md) describes which types are read, and how. A worker starts one "
    "process for every four cores, at least one, for documents other than HTML.",
)

DUPLICATES = SettingGroup(
    "Find duplicates",
    Setting(
        "NEAR_DUPLICATES",
        "mark",
        'What happens to a near-duplicate: `"mark"` stores it with `duplicate_of` and `duplicate_kind` in '
        'its row, `"drop"` stores only the row and does not archive the page.',
        values=Choice(("mark", "drop")),
        example="drop",
    ),
    Setting(
        "NEAR_DUPLICATES_FOLLOW",
        True,
        "Follows the links of near-duplicates. With `False`, the links of every page wait until its text "
        "has been looked up. Links of exact duplicates are always followed.",
    ),
    Setting(
        "SIMHASH_DISTANCE",
        3,
        "Near-duplicates are texts whose 64-bit SimHashes differ in at most this many bits. Do not change "
        "it during a crawl, because pages in the index would no longer be found.",
        values=Whole(most=MOST_DISTANCE),
        example=5,
    ),
    Setting(
        "DUPLICATES_HOT_PAGES",
        1_000_000,
        "Texts and payloads of first pages, together, that the engine keeps in memory, about 200 bytes each. Beyond "
        "that, they move to sorted files in `FRONTIER_SPILL_URI`; each machine keeps a copy of 16 bytes a page. "
        "`0` keeps all in the engine. See [the index](duplicates.md#beyond-memory).",
        values=Whole(least=LEAST_HOT_PAGES, or_zero=True),
        example=5_000_000,
    ),
    Setting(
        "SOFT_404",
        True,
        "Recognizes error pages that answer with 200. When a host has shown more than 20 HTML pages, it is asked "
        "once for a path that cannot exist. Pages like its answer count as errors, have `soft_404` in their rows, "
        "and their links are not followed. See [Soft 404](../guide/duplicates.md#soft-404).",
    ),
    Setting(
        "DUST",
        True,
        "Learns which parts of its URLs change nothing on a host, such as a session in a parameter, `index.html` "
        "or `www.`, and leaves them out of its new URLs. `scrapy host` shows these rules and switches them off. "
        "See [Different URLs with similar text](../guide/duplicates.md#different-urls-with-similar-text).",
    ),
    Setting(
        "DEDUP_ACROSS",
        "database",
        "How far back the archive refers to the same payload of the same URL, instead of storing it again: to "
        'all crawls of one `METADATA_URI` and one archive (`"database"`), or only to earlier fetches of the '
        'same crawl (`"crawl"`), so that the WARC files of a crawl are complete without others. See '
        "[the archive](../guide/archive.md#unchanged-pages).",
        values=Choice(("database", "crawl")),
        example="crawl",
    ),
    intro="See [Duplicates](../guide/duplicates.md).",
)
