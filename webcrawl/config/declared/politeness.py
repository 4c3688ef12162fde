"""Settings of politeness: identity, robots.txt, delays, back-off."""

from __future__ import annotations

from webcrawl.config.kinds import Choice, Number, Whole
from webcrawl.config.politeness_rules import PolitenessRules
from webcrawl.config.setting import Setting, SettingGroup

GROUP = SettingGroup(
    "Crawl politely",
    Setting(
        "USER_AGENT",
        "webcrawl/0.1 (+https://example.org/about-our-crawler; set USER_AGENT to your own)",
        "The `User-Agent` header of every request. Name a page that describes your crawler and a way to "
        "reach you. The part before the first slash is also the name that is looked up in robots.txt.",
        example="examplebot/1.0 (+https://example.com/bot.html)",
    ),
    Setting(
        "ROBOTSTXT_OBEY",
        True,
        "Obeys robots.txt as RFC 9309 defines it, including `Crawl-delay`. While robots.txt answers 5xx "
        "or 429, or is not answered, no URL of the host is fetched.",
    ),
    Setting(
        "CRAWL_WITHOUT",
        [],
        "The safeguards without which the crawl may run: `robots`, `politeness`, `address_guard`, "
        "`acknowledgement`. If settings remove the component of any other safeguard, the crawl does not start. "
        "To ignore robots.txt, `ROBOTSTXT_OBEY = False` is enough.",
        example=["politeness"],
    ),
    Setting(
        "ROBOTS_META_OBEY",
        True,
        'Obeys `nofollow`, `noindex` and `noarchive` in `<meta name="robots">` and `X-Robots-Tag`: links '
        "are not followed, the page is not archived, and with `noindex` its text is not stored either. A "
        "row about the page is stored in any case, and the summary counts such pages.",
    ),
    Setting(
        "AI_OPT_OUTS",
        False,
        "Honours what sites say about use by artificial intelligence. URLs that robots.txt, `/ai.txt` or "
        "`/.well-known/tdmrep.json` keep from crawlers such as GPTBot, CCBot and Google-Extended are not fetched. "
        "Pages that say `noai`, `tdm-reservation: 1` or `Content-Usage: train-ai=n` keep a row, without text and "
        "archive. See [Feed a language model](../howto/feed-a-language-model.md#who-says-no). Needs `ROBOTSTXT_OBEY`.",
    ),
    Setting(
        "POLITENESS_UNIT",
        "name",
        "What takes turns: with `name`, `http` and `https` and all ports of a host name share delay, back-off "
        "and connections; with `origin`, each scheme and port has its own. In both cases, each scheme and port has "
        "its own robots.txt, and its own failures after which it is given up. All crawls of an engine need "
        "the same value, from beginning to end.",
        values=Choice(("name", "origin")),
        example="origin",
    ),
    Setting(
        "DOWNLOAD_DELAY",
        1.0,
        "Seconds from the end of one request to a host to the start of the next, over all workers. A "
        "longer `Crawl-delay` takes precedence; `scrapy host URL --delay` slows down one host during a "
        "crawl. The first page may follow robots.txt at once, unless a longer delay is wanted.",
        example=2.5,
    ),
    Setting(
        "CONCURRENT_REQUESTS_PER_DOMAIN",
        1,
        "Simultaneous requests to one host (`POLITENESS_UNIT`), over all workers. "
        "Above 1, `DOWNLOAD_DELAY` is the time from one request to the next, as they are sent.",
        values=Whole(least=1),
        example=2,
    ),
    Setting(
        "POLITENESS_ADDRESS_CONNECTIONS",
        0,
        "Simultaneous requests to one IP address, over all names on it, workers and crawls of the engine; 0 means "
        "no limit. See [Many names on one address](../howto/change-a-politeness-rule.md#many-names-on-one-address).",
        example=4,
    ),
    Setting(
        "POLITENESS_ADDRESS_DELAY",
        0,
        "Seconds from the start of one request to an IP address to the start of the next, over all names on it, "
        "workers and crawls of the engine. The delay of each host applies too. 0 means none.",
        values=Number(),
        example=0.5,
    ),
    Setting(
        "POLITENESS_ADDRESS_EXCEPT",
        [],
        "Networks to which the last two settings do not apply, such as those of content networks, in the form "
        "`192.0.2.0/24`, or `@file` with one on each line.",
        example=["198.51.100.0/24", "@networks.txt"],
    ),
    Setting(
        "DOWNLOAD_SLOTS",
        {},
        "`delay` and `concurrency` by host name, or by the name of a slot that requests have as `download_slot` in "
        "`Request.meta`.",
        example={"slow.example.org": {"delay": 10}},
    ),
    Setting(
        "POLITENESS_RULES",
        [],
        "`delay`, `connections`, `max_pages` and `user_agent` by host name: `example.org` is this name, "
        "`*.example.org` every name under it, `.example.org` both. The most specific rule that has a field "
        'decides it. `"@rules.json"` names a file, which workers read again when it changes; see '
        "[Rules for hosts](../howto/change-a-politeness-rule.md#rules-for-hosts).",
        values=PolitenessRules(),
        example=[{"match": "*.example.org", "delay": 5, "max_pages": 10_000}],
    ),
    Setting(
        "POLITENESS_MAX_CRAWL_DELAY",
        60,
        "The longest `Crawl-delay` that is obeyed, in seconds; a longer one is cut to this value.",
        values=Number(),
        example=120,
    ),
    Setting(
        "POLITENESS_LATENCY_FACTOR",
        0,
        "If above 0, the delay is at least this factor times the duration of the host's last response.",
        values=Number(),
        example=2,
    ),
    Setting(
        "POLITENESS_ADAPT",
        False,
        "Measures what each host can bear: its delay falls step by step from `DOWNLOAD_DELAY` to "
        "`POLITENESS_MIN_DELAY` while its answers stay quick, and doubles when they become slower or fail; see "
        "[What a host can bear](../howto/change-a-politeness-rule.md#what-a-host-can-bear).",
    ),
    Setting(
        "POLITENESS_MIN_DELAY",
        0.1,
        "With `POLITENESS_ADAPT`, the shortest delay in seconds. A longer `Crawl-delay`, delay of a rule or delay "
        "of `scrapy host` takes precedence.",
        example=0.25,
    ),
    Setting(
        "POLITENESS_BACKOFF",
        60,
        "Seconds to back off from a host after a 429 or 503 without `Retry-After`, or with one of 0 or in the past; "
        "the time doubles with each further failure. After a failed connection or a timeout, it begins at a sixth of "
        "this value.",
        values=Number(),
        example=120,
    ),
    Setting(
        "POLITENESS_MAX_BACKOFF",
        86_400,
        "The longest back-off in seconds, including that of a `Retry-After` header.",
        values=Number(),
        example=3600,
    ),
    Setting(
        "POLITENESS_MAX_FAILURES",
        4,
        "Consecutive failures after which a host is given up and its URLs become dead letters (`scrapy "
        "stuck --requeue` queues them again). A host that answers 429 or 503 gets three times as "
        "many attempts.",
        values=Whole(least=1),
        example=10,
    ),
)
