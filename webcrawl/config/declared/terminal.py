"""Settings for the terminal output and the log of a crawl."""

from __future__ import annotations

from webcrawl.config.kinds import Choice, Flag, Number, SecretWords, String, Whole
from webcrawl.config.setting import Setting, SettingGroup

GROUP = SettingGroup(
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
            "METRICS_PORT",
            None,
            Whole(least=1, most=65535),
            "The port at which a worker serves [metrics](metrics.md) for Prometheus; `None` is off. Of "
            "`scrapy workers`, the first worker has this port, the second the next one, and so on.",
            example=9410,
        ),
        Setting(
            "METRICS_HOST",
            "127.0.0.1",
            String(),
            "The address of this machine at which metrics are served. Everyone who reaches it may read them.",
            example="10.0.0.7",
        ),
        Setting(
            "TRACES",
            False,
            Flag(),
            "Sends the stages of each page as a [trace](metrics.md#traces) of OpenTelemetry, whose own environment "
            'variables name the collector and the share of pages. Needs `pip install "scrapy-webcrawl[traces]"`.',
            example=True,
        ),
        Setting(
            "LOG_LEVEL",
            "WARNING",
            String(),
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
        Setting(
            "NOTIFY",
            [],
            SecretWords(),
            "Where notifications about the crawl are sent, as [Apprise URLs](https://github.com/caronc/apprise/wiki): "
            "mail, chat, webhooks and many more; see [Alarms](alarms.md). They hold secrets, so logs and messages do "
            'not show them. Needs `pip install "scrapy-webcrawl[alarms]"`.',
            example=["mailtos://user:password@mail.example.com?to=team@example.com"],
        ),
        Setting(
            "DASHBOARD_URL",
            "",
            String(),
            "The address of the dashboard, to which notifications link.",
            example="https://crawls.example.com",
        ),
    ),
)
