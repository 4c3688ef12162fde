"""Changes of URLs in a temporary database, by shard and host, with the outcome of each."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from webcrawl.errors import ConfigurationError
from webcrawl.frontier.listing.change_files import URLChange

_AT_ONCE = 1_000
_TABLE = """
    CREATE TABLE changes (
        shard INTEGER, host TEXT, path TEXT, level INTEGER, due INTEGER, dropped INTEGER, row TEXT, outcome TEXT,
        planned INTEGER DEFAULT 0,
        PRIMARY KEY (shard, host, path)
    ) WITHOUT ROWID
"""


_COUNT = """
    SELECT iif(outcome = 'done' AND planned, iif(dropped, 'unplanned', 'planned'), outcome) AS result, count(*)
    FROM changes GROUP BY result
"""


class OpenChange(NamedTuple):
    """The new values for a path of a host: its level, its date in ms, and whether it is dropped."""

    path: str
    level: int | None
    due: int | None
    drop: bool

    def is_level(self, level: int) -> bool:
        """Whether the change leaves a URL of this level at its level."""
        return not self.drop and self.due is None and self.level in (None, level)

    @property
    def date(self) -> str | int:
        """The date, or "drop", as an argument of scripts."""
        return "drop" if self.drop else "" if self.due is None else self.due


class Changes:
    """The changes of a file. `shard_of` returns the shard of a host."""

    def __init__(self, shard_of: Callable[[str], int]) -> None:
        self._shard_of = shard_of
        # a temporary database, which SQLite deletes
        self._database = sqlite3.connect("")
        self._database.execute(_TABLE)

    def close(self) -> None:
        """Deletes the changes."""
        self._database.close()

    def add(self, changes: Iterable[URLChange]) -> None:
        """Adds changes; raises ConfigurationError for a URL that already has a change."""
        unread = iter(changes)
        while batch := list(islice(unread, _AT_ONCE)):
            rows = [
                (
                    self._shard_of(change.host),
                    change.host,
                    change.path,
                    change.level,
                    change.due,
                    change.drop,
                    change.row,
                )
                for change in batch
            ]
            for row in rows:
                try:
                    self._database.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, NULL, 0)", row)
                except sqlite3.IntegrityError as error:
                    raise ConfigurationError(
                        f"{row[1]}{row[2]} is in {self._row_of(*row[:3])} and in {row[6]}: keep one of them"
                    ) from error

    def _row_of(self, shard: int, host: str, path: str) -> str:
        query = "SELECT row FROM changes WHERE shard = ? AND host = ? AND path = ?"
        return str(self._database.execute(query, (shard, host, path)).fetchone()[0])

    def shards(self) -> list[int]:
        """Returns the shards with changes."""
        return [
            shard for (shard,) in self._database.execute("SELECT DISTINCT shard FROM changes ORDER BY shard")
        ]

    def open(self, shard: int, most: int = _AT_ONCE) -> Iterator[tuple[str, list[OpenChange]]]:
        """Yields hosts with their changes that have no outcome yet, at most `most` at a time."""
        after = ("", "")
        query = (
            "SELECT host, path, level, due, dropped FROM changes "
            "WHERE shard = ? AND (host, path) > (?, ?) AND outcome IS NULL ORDER BY host, path LIMIT ?"
        )
        while rows := self._database.execute(query, (shard, *after, most)).fetchall():
            after = rows[-1][:2]
            by_host: dict[str, list[OpenChange]] = {}
            for host, *wanted in rows:
                by_host.setdefault(host, []).append(OpenChange(*wanted))
            yield from by_host.items()

    def find(self, shard: int, host: str, path: str) -> OpenChange | None:
        """Returns the change of a URL that has no outcome yet, or None."""
        query = (
            "SELECT path, level, due, dropped FROM changes "
            "WHERE shard = ? AND host = ? AND path = ? AND outcome IS NULL"
        )
        row = self._database.execute(query, (shard, host, path)).fetchone()
        return None if row is None else OpenChange(*row)

    def settle(self, shard: int, host: str, outcomes: Iterable[tuple[str, str]]) -> None:
        """Records outcomes of changes of a host: (path, outcome)."""
        self._database.executemany(
            "UPDATE changes SET outcome = ? WHERE shard = ? AND host = ? AND path = ?",
            [(outcome, shard, host, path) for path, outcome in outcomes],
        )

    def plan(self, set_dates: Callable[[Mapping[str, datetime | None]], set[str]]) -> None:
        """Sets the dates of fetched pages with a function that returns the URLs that it knows; None to drop them."""
        after = ("", "")
        query = (
            "SELECT host, path, due, dropped FROM changes WHERE (host, path) > (?, ?) "
            "AND (due IS NOT NULL OR dropped) ORDER BY host, path LIMIT ?"
        )
        while rows := self._database.execute(query, (*after, _AT_ONCE)).fetchall():
            after = rows[-1][:2]
            known = set_dates(
                {
                    host + path: None if dropped else datetime.fromtimestamp(due / 1000, UTC)
                    for host, path, due, dropped in rows
                }
            )
            self._database.executemany(
                "UPDATE changes SET planned = 1 WHERE shard = ? AND host = ? AND path = ?",
                [(self._shard_of(host), host, path) for host, path, *_ in rows if host + path in known],
            )

    def counts(self) -> dict[str, int]:
        """Returns the number of changes with each outcome, and the number of made changes by what they set.

        The outcome "done" of pages whose date was set is "planned", and of those that were dropped "unplanned".
        """
        kinds: Sequence[tuple[str, str]] = (
            ("dropped_now", "dropped"),
            ("dated", "due IS NOT NULL AND NOT dropped"),
            ("levelled", "level IS NOT NULL AND NOT dropped"),
        )
        counts = dict(self._database.execute(_COUNT))
        for name, condition in kinds:
            query = f"SELECT count(*) FROM changes WHERE outcome = 'changed' AND {condition}"
            counts[name] = self._database.execute(query).fetchone()[0]
        return counts
