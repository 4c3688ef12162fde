"""Names of settings that are probably misspelt: near misses of those of Scrapy, of this package and of common add-ons.

`webcrawl.config.start.check` refuses misspelt names with prefixes of this package's own; other names may belong to a
component of the user, so they only cause a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher, get_close_matches
from functools import cache

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings

from webcrawl.config import DECLARED

_SIMILAR = 0.85
_SHORTEST = 6
_MOST_EDITS = 2
"""Inserted, deleted or replaced letters; two exchanged letters count as two."""
WITHOUT_DEFAULTS = frozenset(
    [
        # Scrapy
        *("CONCURRENT_REQUESTS_PER_IP", "META_COPY_WARN_SKIP_KEYS"),
        *(
            f"{kind}_{name}"
            for kind in ("FILES", "IMAGES")
            for name in ("STORE", "EXPIRES", "URLS_FIELD", "RESULT_FIELD")
        ),
        *("IMAGES_MIN_WIDTH", "IMAGES_MIN_HEIGHT", "IMAGES_THUMBS", "MEDIA_ALLOW_REDIRECTS"),
        # scrapy-redis
        *("REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_DB", "REDIS_PARAMS", "REDIS_ENCODING"),
        *("REDIS_DECODE_RESPONSES", "REDIS_ITEMS_KEY", "REDIS_ITEMS_SERIALIZER", "REDIS_START_URLS_KEY"),
        *("REDIS_START_URLS_AS_SET", "REDIS_START_URLS_AS_ZSET", "REDIS_START_URLS_BATCH_SIZE"),
        *("SCHEDULER_PERSIST", "SCHEDULER_FLUSH_ON_START", "SCHEDULER_IDLE_BEFORE_CLOSE"),
        *("SCHEDULER_QUEUE_KEY", "SCHEDULER_QUEUE_CLASS", "SCHEDULER_DUPEFILTER_KEY", "SCHEDULER_SERIALIZER"),
        *("DUPEFILTER_KEY", "MAX_IDLE_TIME_BEFORE_CLOSE", "STATS_KEY"),
        # scrapy-playwright
        *("PLAYWRIGHT_ABORT_REQUEST", "PLAYWRIGHT_BROWSER_PROVIDER", "PLAYWRIGHT_BROWSER_TYPE"),
        *("PLAYWRIGHT_CDP_KWARGS", "PLAYWRIGHT_CDP_URL", "PLAYWRIGHT_CONNECT_KWARGS"),
        *("PLAYWRIGHT_CONNECT_URL", "PLAYWRIGHT_CONTEXTS", "PLAYWRIGHT_DEFAULT_NAVIGATION_TIMEOUT"),
        *("PLAYWRIGHT_DOWNLOAD_TIMEOUT", "PLAYWRIGHT_LAUNCH_OPTIONS", "PLAYWRIGHT_MAX_CONTEXTS"),
        *("PLAYWRIGHT_MAX_PAGES_PER_CONTEXT", "PLAYWRIGHT_PROCESS_REQUEST_HEADERS"),
        "PLAYWRIGHT_RESTART_DISCONNECTED_BROWSER",
    ]
)
"""Settings without a default."""


def misspelt(settings: BaseSettings, setter: str = "project") -> Iterator[str]:
    """Yields a sentence for each probably misspelt name that a project, a spider or the command line sets.

    `setter`: "project", or "cmdline" for the names that only the command line sets.
    """
    for name in settings:
        if (settings.getpriority(name) or 0) >= SETTINGS_PRIORITIES[setter] and (near := meant(name)):
            yield f"{name} is not a setting; did you mean {near}?"


def meant(name: str) -> str | None:
    """Returns the known name that `name` probably misspells, or None.

    A plural, such as USER_AGENTS, and a short name are taken for settings of the user's own.
    """
    known = _known()
    if name in known or name.removesuffix("S") in known or len(name) < _SHORTEST:
        return None
    if name.upper() in known:
        return name.upper()
    near = get_close_matches(name, known, n=1, cutoff=_SIMILAR)
    return near[0] if near and _edits(name, near[0]) <= _MOST_EDITS else None


@cache
def _known() -> frozenset[str]:
    defaults = (name for name in vars(default_settings) if name.isupper())
    return frozenset(DECLARED) | WITHOUT_DEFAULTS | frozenset(defaults)


def _edits(given: str, known: str) -> int:
    return sum(
        max(end - start, other_end - other_start)
        for kind, start, end, other_start, other_end in SequenceMatcher(a=given, b=known).get_opcodes()
        if kind != "equal"
    )
