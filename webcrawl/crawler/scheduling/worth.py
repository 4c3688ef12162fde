"""What a worker knows of the worth of URLs: the records of their patterns, importance, budgets, mined weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from webcrawl.frontier.ledger import Ledger
from webcrawl.frontier.link_memory import LinkMemory
from webcrawl.mining.weights_file import WeightsFile
from webcrawl.policies.priorities import Prospect
from webcrawl.policies.terms import PatternRecord
from webcrawl.urls.canonical import split
from webcrawl.worker.budgets import Budgets
from webcrawl.worker.importance import Importance
from webcrawl.worker.mined_changes import MinedChanges
from webcrawl.worker.patterns import Patterns

if TYPE_CHECKING:
    from webcrawl.crawler.session import Session


def patterns_of(session: Session) -> Patterns:
    """The records of URL patterns. Levels that URL_LEVELS sets, and those of credit, stay as they are."""
    config, prioritizer = session.config, session.scope.prioritizer
    sinks = any(isinstance(term, PatternRecord) for term in prioritizer.terms)
    return Patterns(sinks_leased=sinks and prioritizer.levels is None and config.importance == "off")


def budgets_of(session: Session) -> Budgets | None:
    """The budgets of names and domains, which the frontier asks from now on; None if HOST_BUDGETS is off."""
    if not session.config.budgets:
        return None
    connection, delay = session.connection, session.turns.config.delay
    budgets = Budgets(Ledger(connection.engine, connection.keys), delay)
    connection.frontier.over = budgets.over
    return budgets


def mined_of(session: Session) -> MinedChanges | None:
    """The weights of `scrapy mine`; None if MINED is off."""
    use = session.scope.use_mined
    return MinedChanges(WeightsFile.of(session.stores), use) if session.config.mined else None


def importance_of(session: Session, patterns: Patterns) -> Importance | None:
    """The importance of pages; None if IMPORTANCE is off."""
    config, level = session.config, session.scope.prioritizer.level
    if config.importance == "off":
        return None

    def weigh(prospect: Prospect) -> int:
        prospect.sunk = patterns.levels(*split(prospect.url))
        return level(prospect)

    connection = session.connection
    memory = LinkMemory(connection.link_memory, connection.worker)
    # other orders than breadth-first say themselves which URL of a host comes next
    return Importance(connection.frontier, weigh if config.order == "breadth-first" else None, memory)
