"""Settings for the terminal output and the log of a crawl."""

from __future__ import annotations

from webcrawl.config.kinds import Choice, Flag, Number, Text
from webcrawl.config.setting import Group, Setting

GROUP = Group(
    "Watch a crawl",
    (
        Setting(
            "PROGRESS",
            "auto",
            Choice(("auto", "live", "plain", "off")),
            'What is shown on stderr: `"live"` a panel, `"plain"` lines, `"off"` nothing, `"auto"` a panel in '
            "a terminal and lines elsewhere. `summary.json` is always written.",
            example="plain",
        ),
        Setting(
            "PROGRESS_INTERVAL",
            10,
            Number(least=0.1),
            "Seconds between two plain lines.",
            example=60,
        ),
        Setting(
            "LOG_LEVEL",
            "WARNING",
            Text(),
            "`INFO` adds failed downloads, `DEBUG` every page, which takes up to a fifth more CPU; see "
            "[Benchmarks](benchmarks.md#the-options).",
            example="INFO",
        ),
        Setting(
            "STATS_DUMP",
            False,
            Flag(),
            "Logs Scrapy's counters of this worker at the end, at level `INFO`.",
            example=True,
        ),
        Setting(
            "DOWNLOADER_STATS",
            False,
            Flag(),
            "Counts requests and responses by method, status and bytes among Scrapy's counters "
            "(`downloader/...`). `summary.json` has the crawl's own counters in any case.",
            example=True,
        ),
    ),
)
