"""Makes the parts of a worker that weigh URLs: patterns, DUST rules, credit, budgets, mined weights, the recrawl."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from webcrawl.frontier.ledger import Ledger
from webcrawl.frontier.link_memory import LinkMemory
from webcrawl.frontier.trust import TrustLedger
from webcrawl.policies.priorities import Prospect
from webcrawl.policies.terms import PatternRecord
from webcrawl.stores.weights_file import MinedChanges, WeightsFile
from webcrawl.urls.canonical import split
from webcrawl.worker.budgets import Budgets
from webcrawl.worker.host_records import HostRecords, KnownPatterns
from webcrawl.worker.link_intake import LinkIntake
from webcrawl.worker.page_credit import PageCredit
from webcrawl.worker.trust import Trust

if TYPE_CHECKING:
    from webcrawl.crawler.session import Session
    from webcrawl.worker.recrawl_planner import RecrawlPlanner


def intake_of(session: Session, counters: Counter[str]) -> LinkIntake:
    """Returns the intake of links, which counts in `counters`."""
    connection, patterns = session.connection, _patterns_of(session)
    return LinkIntake(
        connection.frontier,
        counters,
        HostRecords(patterns, session.dust, _budgets_of(session)),
        credit=_credit_of(session, patterns),
        bloom=connection.bloom,
    )


def mined_of(session: Session) -> MinedChanges | None:
    """Returns the weights of `scrapy mine`; None if MINED is off."""
    use = session.scope.use_mined
    return MinedChanges(WeightsFile.of(session.stores), use) if session.config.mined else None


def planner_of(
    session: Session,
) -> Callable[[Counter[str], Callable[[], None]], RecrawlPlanner] | None:
    """Returns a function that makes the planner of a worker; None without RECRAWL."""
    if (dates := session.revisit_dates) is None:
        return None
    from webcrawl.stores.due_pages import DuePages  # SQLAlchemy is slow to import
    from webcrawl.worker.recrawl_planner import RecrawlPlanner

    frontier = session.connection.frontier
    due_pages = DuePages(session.stores.metadata, session.config.crawl_id, dates.weights.column)
    return lambda counters, retry_now: RecrawlPlanner(frontier, due_pages, dates, counters, retry_now)


def _patterns_of(session: Session) -> KnownPatterns:
    """Returns the records of URL patterns. They change no level that URL_LEVELS sets or credit decides."""
    config, prioritizer = session.config, session.scope.prioritizer
    sinks = any(isinstance(term, PatternRecord) for term in prioritizer.terms)
    return KnownPatterns(sinks_leased=sinks and prioritizer.levels is None and config.importance == "off")


def _budgets_of(session: Session) -> Budgets | None:
    """Returns the budgets of names and domains, which the frontier uses from now on; None if HOST_BUDGETS is off."""
    if not session.config.budgets:
        return None
    connection, delay = session.connection, session.turns.config.delay
    trust = None
    if session.config.importance == "trusted":
        ledger = TrustLedger(connection.engine, connection.keys)
        trust = Trust(ledger, delay, limited=session.config.max_pages > 0)
    budgets = Budgets(Ledger(connection.engine, connection.keys), delay, trust)
    connection.frontier.over = budgets.over
    return budgets


def _credit_of(session: Session, patterns: KnownPatterns) -> PageCredit | None:
    """Returns the credit of pages; None if IMPORTANCE is off."""
    config, level = session.config, session.scope.prioritizer.level
    if config.importance == "off":
        return None

    def weigh(prospect: Prospect) -> int:
        prospect.sunk = patterns.levels(*split(prospect.url))
        return level(prospect)

    connection = session.connection
    memory = LinkMemory(connection.link_memory, connection.worker)
    # orders other than breadth-first choose the next URL of a host themselves
    return PageCredit(connection.frontier, weigh if config.order == "breadth-first" else None, memory)
