"""Settings for the terminal output and the log of a crawl."""

from __future__ import annotations

from webcrawl.config.kinds import Choice, Number, SecretWords, Whole
from webcrawl.config.setting import Setting, SettingGroup

GROUP = SettingGroup(
    "Watch a crawl",
    Setting(
        "PROGRESS",
        "auto",
        'What is shown on stderr: `"live"` a panel, `"plain"` lines, `"off"` nothing, `"auto"` a panel in '
        "a terminal and lines elsewhere. `summary.json` is always written.",
        values=Choice(("auto", "live", "plain", "off")),
        example="plain",
    ),
    Setting(
        "PROGRESS_INTERVAL",
        10,
        "Seconds between two plain lines.",
        values=Number(least=0.1),
        example=60,
    ),
    Setting(
        "METRICS_PORT",
        None,
        "The port at which a worker serves [metrics](metrics.md) for Prometheus; `None` is off. Of "
        "`scrapy workers`, the first worker has this port, the second the next one, and so on.",
        values=Whole(least=1, most=65535),
        example=9410,
    ),
    Setting(
        "METRICS_HOST",
        "127.0.0.1",
        "The address of this machine at which metrics are served. Everyone who reaches it may read them.",
        example="10.0.0.7",
    ),
    Setting(
        "TRACES",
        False,
        "Sends the stages of each page as a [trace](metrics.md#traces) of OpenTelemetry, whose own environment "
        "variables name the collector and the share of pages. Needs the extra [`traces`](../installing.md#extras).",
    ),
    Setting(
        "LOG_LEVEL",
        "WARNING",
        "`INFO` adds failed downloads, `DEBUG` every page, which takes up to a fifth more CPU; see "
        "[Benchmarks](benchmarks.md#the-options). The [file of a worker](dashboard.md#the-log) has "
        "lines of level `INFO` in any case.",
        example="INFO",
    ),
    Setting(
        "STATS_DUMP",
        False,
        "Logs Scrapy's counters of this worker at the end, at level `INFO`.",
    ),
    Setting(
        "DOWNLOADER_STATS",
        False,
        "Counts requests and responses by method, status and bytes among Scrapy's counters "
        "(`downloader/...`). `summary.json` has the crawl's own counters in any case.",
    ),
    Setting(
        "NOTIFY",
        [],
        "Where notifications about the crawl are sent, as [Apprise URLs](https://github.com/caronc/apprise/wiki): "
        "mail, chat, webhooks and many more; see [Alarms](../guide/alarms.md). They hold secrets, so logs and messages "
        "do not show them. Needs `pip install apprise jsonschema`.",
        values=SecretWords(),
        example=["mailtos://user:password@mail.example.com?to=team@example.com"],
    ),
    Setting(
        "DASHBOARD_URL",
        "",
        "The address of the dashboard, to which notifications link.",
        example="https://crawls.example.com",
    ),
)
