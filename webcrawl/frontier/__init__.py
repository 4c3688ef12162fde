"""The frontier: decides which URL is fetched next, as Lua scripts in Valkey (after Mercator and URLFrontier)."""

from webcrawl.frontier.crawl import Crawl
from webcrawl.frontier.entry import (
    DEFAULT_LEVEL,
    LEVELS,
    SAMPLE,
    Candidate,
    LeasedURL,
    level_of_priority,
    priority_of_level,
)
from webcrawl.frontier.frontier import Frontier
from webcrawl.frontier.recent import RecentCache
from webcrawl.frontier.records import (
    Counts,
    DeadLetter,
    HostLimits,
    HostQueue,
    HostState,
    Lease,
    Report,
    Settlement,
)

__all__ = [
    "DEFAULT_LEVEL",
    "LEVELS",
    "SAMPLE",
    "Candidate",
    "Counts",
    "Crawl",
    "DeadLetter",
    "Frontier",
    "HostLimits",
    "HostQueue",
    "HostState",
    "Lease",
    "LeasedURL",
    "RecentCache",
    "Report",
    "Settlement",
    "level_of_priority",
    "priority_of_level",
]
