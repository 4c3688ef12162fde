"""The statements that store and read rows of pages, each compiled when it is first used.

Compiling one takes 1 to 4 ms; most crawls use two or three, most commands none. All databases of a process with the
same dialect share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Dialect,
    Text,
    and_,
    any_,
    case,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.sql import bindparam

from webcrawl.stores.columns import fetches, pages
from webcrawl.stores.compiled import Reading, Writing
from webcrawl.stores.database import insert_into
from webcrawl.stores.history import PAST_COLUMNS, UNCHANGED

# columns that the store computes; all others come from the page
_KEPT = frozenset({"first_fetched_at", "fetches", "state", "tried_at", "changed_at", "queued_at"})
_OF_THE_TRY = frozenset({"error", "attempts", "state", "tried_at", "crawl", "queued_at"})
_OF_THE_ANSWER = tuple(
    column.name
    for column in pages.columns
    if column.name not in {*_KEPT - {"changed_at"}, *_OF_THE_TRY, "url"}
)
_shared: dict[type[Dialect], PageStatements] = {}


def page_statements(dialect: Dialect) -> PageStatements:
    """The statements of this process for a dialect."""
    return _shared.setdefault(type(dialect), PageStatements(dialect))


class PageStatements:
    """Compiled statements on the tables `pages` and `fetches`."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    @cached_property
    def add(self) -> Writing:
        """Adds a row; see `_add_statement`."""
        return Writing(_add_statement(self._dialect), dict(pages.columns), self._dialect)

    @cached_property
    def answer(self) -> Writing:
        """Replaces the contents of a known row."""
        return self._update((*_OF_THE_ANSWER, *_OF_THE_TRY, "fetches"))

    @cached_property
    def attempt(self) -> Writing:
        """Stores an attempt that brought no contents."""
        return self._update((*_OF_THE_TRY, "fetches"))

    @cached_property
    def confirm(self) -> Writing:
        """Stores that the contents of a row are still the same."""
        return self._update((*_OF_THE_TRY, "fetches", "etag", "last_modified"))

    @cached_property
    def get(self) -> Reading:
        """The row of the URL `key`."""
        return Reading(select(pages).where(pages.c.url == bindparam("key")), pages.columns, self._dialect)

    @cached_property
    def look(self) -> Reading:
        """The facts of `urls` that a new fetch changes."""
        return Reading(_look_statement(self._dialect), (pages.c.url, *PAST_COLUMNS), self._dialect)

    @cached_property
    def remember(self) -> Writing:
        """Adds a fetch to the history."""
        statement = insert_into(self._dialect, fetches).on_conflict_do_nothing()
        return Writing(statement, dict(fetches.columns), self._dialect)

    def _update(self, names: Sequence[str]) -> Writing:
        """Updates a row that `look` has locked."""
        statement = pages.update().where(pages.c.url == bindparam("key", type_=pages.c.url.type))
        columns = {"key": pages.c.url, **{name: pages.c[name] for name in names}}
        return Writing(statement, columns, self._dialect)


def _look_statement(dialect: Dialect) -> Any:
    """Selects the rows of `urls`: an array in PostgreSQL, a JSON list in SQLite."""
    wanted: ColumnElement[bool]
    if dialect.name == "sqlite":
        wanted = pages.c.url.in_(
            select(func.json_each(bindparam("urls", type_=Text)).table_valued("value").c.value)
        )
    else:
        wanted = pages.c.url == any_(bindparam("urls", type_=ARRAY(Text)))
    return select(pages.c.url, *PAST_COLUMNS).where(wanted).order_by(pages.c.url).with_for_update()


def _add_statement(dialect: Dialect) -> Any:
    """Adds a row. If another process has just added it, updates it as `follow` would."""
    insert = insert_into(dialect, pages)
    new, old = insert.excluded, pages.c
    replaced: dict[str, Any] = {name: new[name] for name in _OF_THE_TRY}
    # an attempt without contents keeps those of an earlier response
    no_contents = or_(new.status.is_(None), new.status == literal_column(str(UNCHANGED)))
    brought_nothing = and_(no_contents, old.status.is_not(None))
    for name in _OF_THE_ANSWER:
        replaced[name] = case((brought_nothing, old[name]), else_=new[name])
    of_this_crawl = case((old.crawl == new.crawl, old.queued_at))
    replaced["queued_at"] = func.coalesce(of_this_crawl, new.queued_at)
    is_repeated = func.coalesce(old.tried_at, old.fetched_at) == new.tried_at
    replaced["fetches"] = old.fetches + case((is_repeated, literal_column("0")), else_=literal_column("1"))
    return insert.on_conflict_do_update(index_elements=[pages.c.url], set_=replaced)
