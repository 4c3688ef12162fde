"""The outbox of notifications: table `notices` of the metadata database, where notices outlast their process."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, delete, select, update

from webcrawl.alarms.tables import ALARMS, notices
from webcrawl.stores.columns import in_utc
from webcrawl.stores.database import insert_into, is_read_only
from webcrawl.stores.schema import SchemaTables

MOST_ATTEMPTS = 100
"""The failures after which a notice is kept but no longer sent: almost four days."""
CLAIM_SECONDS = 120.0
"""The seconds in which a process must send a notice that `due` returned; then another process gets it."""
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 3600.0


@dataclass(frozen=True, slots=True)
class Notice:
    """A notification.

    key      identifies the notice: of several notices with the same key, only the first is stored and sent
    kind     FINISHED, STUCK, SCHEMA, STALLED, ERRORS, HOSTS, STORES, CHECKPOINT, WORKER,
             ENGINE, or what a caller chooses
    title    one line; `text` has the details as plain text
    link     the URL of the dashboard's page about the notice; "" if it is unknown
    """

    key: str
    kind: str
    title: str
    text: str
    created: datetime
    crawl: str = ""
    job: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """A notice in the outbox.

    targets    IDs of the targets that have not got the notice; None: the targets of the process that sends it
    due        when the notice will be sent next; None if it was `sent` or its `attempts` are used up
    error      why the last attempt failed
    """

    id: int
    notice: Notice
    targets: tuple[str, ...] | None
    due: datetime | None
    attempts: int
    error: str | None
    sent: datetime | None


def utc_now() -> datetime:
    """Returns the time of this machine's clock in UTC."""
    return datetime.now(UTC)


def pause(attempts: int) -> timedelta:
    """Returns the pause after a number of failures: 10 s, which doubles with each failure, up to an hour."""
    return timedelta(seconds=min(_FIRST_PAUSE * 2 ** min(attempts - 1, 20), _LONGEST_PAUSE))


class Outbox(SchemaTables):
    """The outbox in the metadata database at a URI. Methods may be called from any thread.

    Any number of processes may put and send notices. Methods raise StoreError with the name of the database, or
    StoreUnavailable when retrying may succeed.
    """

    def __init__(self, uri: str) -> None:
        super().__init__(uri, ALARMS, read_only=is_read_only(uri))
        insert = insert_into(self.database.dialect, notices)
        self._insert = insert.on_conflict_do_nothing(index_elements=[notices.c.key]).returning(notices.c.id)

    def put(self, notice: Notice, targets: Collection[str] | None = None) -> bool:
        """Stores a notice to be sent to `targets` (IDs); returns False if its key is known.

        With None, the first process that sends the notice determines the targets.
        """
        values = {
            **{column: getattr(notice, column) for column in ("key", "kind", "title", "text", "created")},
            **{column: getattr(notice, column) or None for column in ("crawl", "job", "link")},
            "targets": None if targets is None else sorted(targets),
            "due": notice.created,
            "attempts": 0,
        }
        return self.database.write(
            lambda connection: connection.execute(self._insert, values).first() is not None
        )

    def due(self, now: datetime, targets: Collection[str], limit: int = 100) -> list[Stored]:
        """Claims and returns notices that are due for some of these targets, the oldest first.

        No other process gets a claimed notice for CLAIM_SECONDS. Notices without targets get these targets.
        """
        # usually no notice is due, and the database need not be locked
        with self.database.reading(at_leisure=False) as connection:
            if connection.execute(_oldest_first().where(notices.c.due <= now).limit(1)).first() is None:
                return []

        def work(connection: Connection) -> list[Stored]:
            query = _oldest_first().where(notices.c.due <= now).with_for_update(skip_locked=True)
            due = [_stored(row) for row in connection.execute(query).mappings()]
            mine = [
                stored
                for stored in due
                if stored.targets is None or not set(targets).isdisjoint(stored.targets)
            ]
            del mine[limit:]
            for stored in mine:
                values: dict[str, Any] = {"due": in_utc(now) + timedelta(seconds=CLAIM_SECONDS)}
                if stored.targets is None:
                    values["targets"] = sorted(targets)
                connection.execute(update(notices).where(notices.c.id == stored.id).values(values))
            return [_stored(row) for row in _rows(connection, [stored.id for stored in mine])]

        return self.database.write(work)

    def sent(self, number: int, target: str, now: datetime) -> None:
        """Records that a target got a notice."""

        def work(connection: Connection) -> None:
            for row in _rows(connection, [number]):
                left = [other for other in row["targets"] or () if other != target]
                values: dict[str, Any] = {"targets": left}
                if not left:
                    values |= {"sent": now, "due": None, "error": None}
                connection.execute(update(notices).where(notices.c.id == number).values(values))

        self.database.write(work)

    def failed(self, number: int, error: str, now: datetime) -> None:
        """Records that some targets did not get a notice, which becomes due again after a growing pause."""

        def work(connection: Connection) -> None:
            for row in _rows(connection, [number]):
                attempts = row["attempts"] + 1
                again = None if attempts >= MOST_ATTEMPTS else in_utc(now) + pause(attempts)
                values = {"attempts": attempts, "error": error, "due": again}
                connection.execute(update(notices).where(notices.c.id == number).values(values))

        self.database.write(work)

    def notices(self, limit: int = 100, *, crawl: str | None = None, unsent: bool = False) -> list[Stored]:
        """Returns notices, the newest first, optionally only those of a crawl, or only unsent notices."""
        query = select(notices).order_by(notices.c.id.desc()).limit(limit)
        if crawl is not None:
            query = query.where(notices.c.crawl == crawl)
        if unsent:
            query = query.where(notices.c.sent.is_(None))
        with self.database.reading() as connection:
            return [_stored(row) for row in connection.execute(query).mappings()]

    def retry(self, now: datetime) -> int:
        """Makes all unsent notices due now, also notices whose attempts are used up; returns their number."""
        unsent = update(notices).where(notices.c.sent.is_(None)).values(due=now, attempts=0)
        return self.database.write(lambda connection: connection.execute(unsent).rowcount)

    def forget(self, before: datetime) -> int:
        """Deletes the notices that were sent before a time; returns their number."""
        old = delete(notices).where(notices.c.sent < before)
        return self.database.write(lambda connection: connection.execute(old).rowcount)


def _oldest_first() -> Select[Any]:
    return select(notices).where(notices.c.sent.is_(None)).order_by(notices.c.id)


def _rows(connection: Connection, numbers: Sequence[int]) -> Sequence[Any]:
    """Returns the rows of unsent notices, locked until the transaction ends."""
    query = _oldest_first().where(notices.c.id.in_(numbers)).with_for_update()
    return connection.execute(query).mappings().all()


def _stored(row: Any) -> Stored:
    about: dict[str, Any] = {name: row[name] for name in ("key", "kind", "title", "text", "created")}
    about |= {name: row[name] or "" for name in ("crawl", "job", "link")}
    targets = None if row["targets"] is None else tuple(row["targets"])
    state = {name: row[name] for name in ("id", "due", "attempts", "error", "sent")}
    return Stored(notice=Notice(**about), targets=targets, **state)
