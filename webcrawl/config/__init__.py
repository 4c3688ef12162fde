"""Settings: each is declared once, read once and checked at the start of a crawl.

`declared` has the declarations: name, default, allowed values, explanation, example. `read` returns the value of one
setting; each record below holds the settings of one component. `webcrawl.config.page` writes
docs/reference/settings.md.
"""

from webcrawl.config.declared import DECLARED, DEFAULTS, GROUPS
from webcrawl.config.engine import EngineConfig, data_dir
from webcrawl.config.frontier import FrontierConfig, RecrawlConfig
from webcrawl.config.object_stores import OBJECT_STORES, check_store_uri, object_stores
from webcrawl.config.pages import DuplicatesConfig, FetchConfig, ReaderConfig, Spool
from webcrawl.config.politeness import (
    AddressConfig,
    PolitenessConfig,
    politeness,
    politeness_overrides,
    slow_requests,
)
from webcrawl.config.politeness_rules import PolitenessRule, politeness_rule
from webcrawl.config.records import read
from webcrawl.config.start import check
from webcrawl.config.stores import StoreConfig, spill_uri

__all__ = [
    "DECLARED",
    "DEFAULTS",
    "GROUPS",
    "OBJECT_STORES",
    "AddressConfig",
    "DuplicatesConfig",
    "EngineConfig",
    "FetchConfig",
    "FrontierConfig",
    "PolitenessConfig",
    "PolitenessRule",
    "ReaderConfig",
    "RecrawlConfig",
    "Spool",
    "StoreConfig",
    "check",
    "check_store_uri",
    "data_dir",
    "object_stores",
    "politeness",
    "politeness_overrides",
    "politeness_rule",
    "read",
    "slow_requests",
    "spill_uri",
]
