"""Settings of the engine, the frontier and the workers that share them."""

from __future__ import annotations

from webcrawl.config.kinds import Choice, Number, Seconds, String, Whole
from webcrawl.config.setting import Setting, SettingGroup

LEAST_HOT_URLS = 8

GROUP = SettingGroup(
    "Resume a crawl and share it among workers",
    Setting(
        "CRAWL_ID",
        None,
        "The name of the crawl in the engine: 1 to 64 letters, digits, dots, dashes and underscores; "
        "`None` means the spider's name. Workers with the same name share one crawl, and a later run "
        "resumes it.",
        values=String(),
        example="docs-2025",
    ),
    Setting(
        "CHECKPOINT_EVERY",
        0.0,
        "Seconds, or such as `6h`, between two [checkpoints](../guide/frontier.md#checkpoints-from-time-to-time) of a "
        "running crawl; 0 writes none. They are in `checkpoints/` below `STORE_URI`, or in `DATA_DIR/checkpoints`, in "
        "a folder for each crawl and time. The latest three are kept.",
        values=Seconds(),
        example=21_600.0,
    ),
    Setting(
        "REDIS_URL",
        None,
        "The Valkey or Redis server (7.0 or newer) or cluster that keeps the frontier; `None` starts an "
        "embedded Valkey in `DATA_DIR/engine`. Several nodes of a cluster are separated by commas: "
        "`redis://a:7000,b:7000`. Sentinels are followed by the name of the primary that they watch: "
        "`redis+sentinel://a,b,c/mymaster/0`. `rediss` and `rediss+sentinel` use TLS. The server should write to "
        "disk (`appendonly yes`) and never evict keys (`maxmemory-policy noeviction`).",
        values=String(),
        example="redis://:password@valkey.example.com:6379/0",
    ),
    Setting(
        "REDIS_PARAMS",
        {},
        "Further arguments of redis-py's client, as in scrapy-redis. Without `REDIS_URL`, a `host`, "
        "`port`, `db` or `unix_socket_path` among them names the server.",
        example={"socket_timeout": 30},
    ),
    Setting(
        "SCHEDULER_PERSIST",
        True,
        "Keeps the frontier when a worker ends. `False` deletes the crawl from the engine: use it only "
        "with a single worker.",
        unset=False,
    ),
    Setting(
        "SCHEDULER_FLUSH_ON_START",
        False,
        "Deletes the crawl from the engine when a worker starts: use it only with a single worker. Stored "
        "pages are kept.",
    ),
    Setting(
        "CRAWL_WEIGHT",
        1.0,
        "The crawl's share of a host that other crawls of the same engine want too: a crawl with weight 3 "
        "gets three URLs for each URL of a crawl with weight 1. 0 puts its URLs before those of all others, as the "
        "spider `live` does.",
        values=Number(least=0, most=1000),
        example=3,
    ),
    Setting(
        "FRONTIER_SHARDS",
        16,
        "Parts into which hosts are divided among workers; a few times the number of workers is enough. With more than "
        "a quarter of the hosts that workers lease at once, important pages come later. "
        "It cannot change until all crawls of the engine are deleted.",
        values=Whole(least=1, most=4096),
        example=64,
    ),
    Setting(
        "FRONTIER_LEASE_SECONDS",
        60,
        "Seconds after which the hosts of a worker that does not report are leased to others. Workers "
        "extend their leases every 2 seconds, or every quarter of this time if that is shorter.",
        values=Number(least=1),
        example=30,
    ),
    Setting(
        "FRONTIER_MAX_ATTEMPTS",
        5,
        "Attempts after which a URL becomes a dead letter, listed by `scrapy stuck`. Attempts during "
        "which the worker died are counted separately, with the same limit.",
        values=Whole(least=1, most=255),
        example=3,
    ),
    Setting(
        "PROCESSING_TIMEOUT",
        3600,
        "Seconds that callback and pipelines may take for a page. After that they are cancelled, and the page is "
        "fetched again, or becomes a dead letter at the last attempt. Time in which stores or the engine are "
        "unavailable does not count; 0 means no limit.",
        values=Number(),
        example=600,
    ),
    Setting(
        "FRONTIER_RETRY_DELAY",
        30,
        "Seconds before the second attempt of a URL; the delay doubles with each further attempt, up to a day. The "
        "back-off of a host takes precedence.",
        values=Number(),
        example=300,
    ),
    Setting(
        "FRONTIER_ORDER",
        "breadth-first",
        "The order of the URLs of a host with the same priority: oldest first, newest first, or "
        "random among those that the engine has in memory. All workers of a crawl need the same value.",
        values=Choice(("breadth-first", "depth-first", "random")),
        example="depth-first",
    ),
    Setting(
        "IMPORTANCE",
        "trusted",
        "How the importance of pages is computed while they are crawled. With `trusted` and with `aopic`, credit flows "
        "along links, see [Importance](../guide/importance.md), and links to important pages are fetched before others "
        "of the same priority, if `FRONTIER_ORDER` is `breadth-first`. With `trusted`, hosts also share their turns by "
        "their [trust](../guide/importance.md#trust), unless `HOST_BUDGETS` is off; with `aopic`, each host has the "
        "same turns. With `off`, a new URL costs the engine half of the time and 16 bytes less. All workers of a crawl "
        "need the same value.",
        values=Choice(("trusted", "aopic", "off")),
        example="off",
    ),
    Setting(
        "FRONTIER_HOT_URLS",
        1000,
        "URLs of one host and priority that the engine keeps in memory; further ones are written to "
        f"`FRONTIER_SPILL_URI`. At least {LEAST_HOT_URLS}, or 0 to keep all in memory. All workers of a crawl need "
        "the same value. A quarter is read back four times a second, so one host gets about as many requests a "
        "second at most: with 50, eight fast hosts were crawled at half the speed.",
        values=Whole(least=LEAST_HOT_URLS, most=100_000, or_zero=True),
        example=10_000,
    ),
    Setting(
        "FRONTIER_SPILL_URI",
        None,
        "Where the rest of long queues is stored, and known URLs for which the engine has no memory left, shared by "
        "all workers: `file:///folder` or "
        "`s3://bucket/prefix`. `None` means `DATA_DIR/frontier` with the embedded engine. With `REDIS_URL` it "
        "means `frontier` below a `STORE_URI` in S3; without one, long queues stay in memory.",
        values=String(),
        example="file:///mnt/shared/frontier",
    ),
    Setting(
        "SEEN_SET",
        "exact",
        'The set of known URLs: `"exact"` is in the engine and shared, `"bloom"` is a Bloom filter in the '
        "memory of a single worker, saved in `DATA_DIR/seen`. It is smaller, but skips about one new URL "
        "in a thousand.",
        values=Choice(("exact", "bloom")),
        example="bloom",
    ),
    Setting(
        "LIVE_STREAM",
        "live:urls",
        "The stream of the engine from which the spider `live` takes URLs; see "
        "[Put a stream in](../howto/put-a-stream-in.md). Finished messages are deleted, so no other consumer group "
        "should read it.",
        example="orders:urls",
    ),
    intro="See [Crawl with many workers](../start/many-machines.md) and [Frontier](../guide/frontier.md).",
)
