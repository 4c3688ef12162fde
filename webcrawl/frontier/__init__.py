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
    DeadLetter,
    FrontierCounts,
    HostLimits,
    HostQueue,
    HostStatus,
    Lease,
    LeaseReport,
    Settlement,
)

__all__ = [
    "DEFAULT_LEVEL",
    "LEVELS",
    "SAMPLE",
    "Candidate",
    "FrontierCounts",
    "Crawl",
    "DeadLetter",
    "Frontier",
    "HostLimits",
    "HostQueue",
    "HostStatus",
    "Lease",
    "LeasedURL",
    "RecentCache",
    "LeaseReport",
    "Settlement",
    "level_of_priority",
    "priority_of_level",
]
