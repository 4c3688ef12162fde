"""The metadata of pages in SQLite or PostgreSQL: table `pages`, one row for each URL, and table `fetches`.

The row of a URL describes its latest response, and the outcome (`state`, `error`, `tried_at`) of the latest attempt.
When a later fetch replaces a response, its facts move to `fetches`. The history of a URL is in `fetches` and in its
row, and costs nothing if a crawl fetches each URL once. Table `pages` keeps SQLite's row IDs: upserts are 60% faster.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from sqlalchemy import ColumnElement, Connection, Select, Text, and_, delete, exists, func, or_, select
from sqlalchemy.sql import bindparam

from webcrawl.documents.payload import PAYLOAD
from webcrawl.documents.values import clean, memory_bytes
from webcrawl.errors import InvalidURL
from webcrawl.policies.change_signals import SignalCounts
from webcrawl.policies.revisit_dates import RevisitDates
from webcrawl.stores.columns import fetches, host_signals, in_utc, pages
from webcrawl.stores.database import Database, insert_into, is_read_only
from webcrawl.stores.history import (
    PAST_COLUMNS,
    UNCHANGED,
    described,
    describes_changes,
    follow,
    new_link_source,
    state,
)
from webcrawl.stores.page_statements import WriteStatement, page_statements, weights_statement
from webcrawl.stores.schema import PAGES, SchemaTables
from webcrawl.stores.selection import CRAWLS, of_host, with_urls
from webcrawl.urls.canonical import split

if TYPE_CHECKING:
    from webcrawl.stores.current_pages import PageContents

SCAN_BATCH = 1_000
SCAN_BYTES = 16_000_000
_ROWS_AT_ONCE = 20
_NARROW_BATCH = 10_000


class StoredFetch(NamedTuple):
    """A fetch of a URL. `changed`: its contents differ from the previous response. `latency` is in seconds."""

    fetched_at: datetime
    status: int | None
    changed: bool
    digest: str | None
    length: int | None
    latency: float | None
    error: str | None
    warc_file: str | None
    warc_offset: int | None
    warc_length: int | None

    def row(self, url: str) -> dict[str, Any]:
        """Returns the fetch as a row of its URL."""
        return {**self._asdict(), "url": url}


class Metadata(SchemaTables):
    """The tables of pages in the database at a URI.

    `history` is the number of earlier fetches that are kept for a URL. `dates` decide when pages are due again.
    `partitions`: those of tables that this creates in PostgreSQL.
    Methods may be called from any thread. They raise StoreError with the name of the database, StoreUnavailable when
    retrying may succeed.
    """

    def __init__(
        self,
        uri: str,
        *,
        history: int = 30,
        read_only: bool = False,
        dates: RevisitDates | None = None,
        partitions: int = 0,
    ) -> None:
        super().__init__(uri, PAGES, read_only=read_only, partitions=partitions)
        self._history = history
        self._dates = dates
        self._statements = page_statements(self.database.dialect)
        column = dates.weights.column if dates else ""
        self._weights = weights_statement(column, self.database.dialect) if column else None

    @classmethod
    def to_read(cls, uri: str, *, history: int = 30, partitions: int = 0) -> Self:
        """Returns the tables for reading only, also in a SQLite file that this process may not write."""
        return cls(uri, history=history, read_only=is_read_only(uri), partitions=partitions)

    def upsert(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Stores rows of pages (`Page.row()`) in one transaction. Replaces the row of a known URL; counts the fetch.

        A 304 or a failed fetch keeps the contents of the earlier response; a 304 for these contents updates the
        validators. A fetch that is stored again counts once.
        """
        if rows:
            self.database.write(lambda connection: self._store(connection, rows))

    def get(self, url: str) -> dict[str, Any] | None:
        """Returns the row of a URL, or None."""
        statement = self._statements.get
        row = self.database.first(statement.text, {"key": url})
        return None if row is None else statement.row(row)

    def get_many(self, urls: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Returns rows by URL, for at most some thousand URLs; URLs without a row are left out."""
        with self.database.reading(at_leisure=False) as connection:
            query = select(pages).where(with_urls(urls, self.database.dialect))
            rows = connection.execute(query).mappings().all()
        return {row["url"]: dict(row) for row in rows}

    def last_visits(self, urls: Sequence[str]) -> dict[str, datetime]:
        """Returns the time of the last attempt by URL, for at most some thousand URLs; others are left out."""
        visits = self._statements.visits
        with self.database.reading(at_leisure=False) as connection:
            parameters = _url_parameters(connection, urls)
            rows = map(visits.row, connection.exec_driver_sql(visits.text, parameters))
            return {row["url"]: row["tried_at"] or row["fetched_at"] for row in rows}

    def lacking(self, urls: Sequence[str], crawl: str) -> set[str]:
        """Returns those of some thousand URLs at most that have no row of this crawl."""
        query = select(pages.c.url).where(with_urls(urls, self.database.dialect), pages.c.crawl == crawl)
        with self.database.reading(at_leisure=False) as connection:
            return set(urls) - set(connection.execute(query).scalars())

    def payload_rows(self, urls: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Returns `PAYLOAD_COLUMNS` by URL, for at most some thousand URLs; URLs without a row are left out."""
        payloads = self._statements.payloads
        rows = self.database.rows(payloads.text, _url_parameters(self.database, urls))
        return {row["url"]: row for row in map(payloads.row, rows)}

    def update(
        self, url: str, change: Callable[[dict[str, Any]], Mapping[str, Any]]
    ) -> dict[str, Any] | None:
        """Sets the columns that `change` returns for the row of a URL. Returns the new row, or None if there is none.

        The row is locked meanwhile. `change` may be called again, so it should have no side effects.
        """

        def work(connection: Connection) -> dict[str, Any] | None:
            query = select(pages).where(pages.c.url == url).with_for_update()
            row = connection.execute(query).mappings().first()
            if row is None:
                return None
            if changes := dict(change(dict(row))):
                connection.execute(pages.update().where(pages.c.url == url).values(changes))
            return {**row, **changes}

        return self.database.write(work)

    def history(self, url: str) -> list[StoredFetch]:
        """Returns the known fetches of a URL, the oldest first."""
        with self.database.reading() as connection:
            earlier = select(fetches).where(fetches.c.url == url)
            rows = [dict(row) for row in connection.execute(earlier).mappings()]
            own = connection.execute(select(*PAST_COLUMNS).where(pages.c.url == url)).mappings().first()
        if own is not None:
            rows.append(described(dict(own)))
        rows.sort(key=lambda row: row["fetched_at"])
        return [StoredFetch(**{name: row[name] for name in StoredFetch._fields}) for row in rows]

    def signal_counts(self, hosts: Collection[str]) -> dict[str, dict[str, SignalCounts]]:
        """Returns host -> kind of signal -> what is known of it."""
        query = select(host_signals).where(host_signals.c.host.in_(set(hosts)))
        with self.database.reading(at_leisure=False) as connection:
            rows = connection.execute(query).all()
        return {
            row.host: {kind: SignalCounts(*values) for kind, values in row.counts.items()} for row in rows
        }

    def count(self) -> int:
        """Returns the number of URLs stored."""
        with self.database.reading() as connection:
            return int(connection.execute(select(func.count()).select_from(pages)).scalar_one())

    def crawls(self) -> list[str]:
        """Returns the names of the crawls that fetched a page last."""
        with self.database.reading() as connection:
            return list(connection.execute(CRAWLS).scalars())

    def scan(
        self,
        host: str | None = None,
        *,
        after: str = "",
        where: Sequence[ColumnElement[bool]] = (),
        columns: Sequence[str] = (),
    ) -> Iterator[dict[str, Any]]:
        """Yields all rows, or the rows of a host (scheme, name and port), sorted by URL, after the URL `after`.

        Reads batches by the primary key, bounded in rows and bytes, so that writers are not blocked. `where` has more
        conditions. `columns`: those to read, with `url`; by default all.
        """
        within = [] if host is None else [of_host(host)]
        chosen: Sequence[Any] = [pages.c[name] for name in columns] or [pages]
        while True:
            condition = and_(pages.c.url > after, *within, *where)
            rows, more = self._batch(select(*chosen).where(condition).order_by(pages.c.url).limit(SCAN_BATCH))
            yield from rows
            if not more:
                return
            after = rows[-1]["url"]

    def contents(self) -> Iterator[PageContents]:
        """Yields the contents of all pages, sorted by URL, in batches as `scan` does; reads no large column."""
        from webcrawl.stores.current_pages import PageContents  # it imports NumPy, which no worker needs

        row = pages.c
        facts = [self._payload_fact(name) for name in ("url", "fetched_at")]
        columns = (row.url, row.fetched_at, row.tried_at, row.state, row.status, row.soft_404, *facts)
        after = ""
        while True:
            query = select(*columns).where(row.url > after).order_by(row.url).limit(_NARROW_BATCH)
            with self.database.reading() as connection:
                batch = connection.execute(query).all()
            for url, fetched_at, tried_at, outcome, status, soft_404, payload_of, stored_at in batch:
                since = (
                    in_utc(datetime.fromisoformat(stored_at))
                    if payload_of == url and stored_at
                    else fetched_at
                )
                until = tried_at if tried_at and outcome == state(UNCHANGED) else fetched_at
                is_good = status is not None and 200 <= status < 300 and not soft_404
                yield PageContents(url, since, until, is_good)
            if len(batch) < _NARROW_BATCH:
                return
            after = batch[-1][0]

    def _payload_fact(self, name: str) -> ColumnElement[str]:
        """Returns a fact of `StoredPayload` in the details of a row."""
        if self.database.dialect.name == "sqlite":
            return func.json_extract(pages.c.details, f"$.{PAYLOAD}.{name}", type_=Text)
        return func.jsonb_extract_path_text(pages.c.details, PAYLOAD, name, type_=Text)

    def _batch(self, query: Select[Any]) -> tuple[list[dict[str, Any]], bool]:
        """Returns the first rows of a query, and whether there may be more."""
        rows, size = [], 0
        with self.database.reading() as connection:
            # stream from a server: large rows end the batch early
            stream = connection.execution_options(stream_results=True, max_row_buffer=_ROWS_AT_ONCE)
            result = stream.execute(query)
            names = tuple(result.keys())
            for values in result:
                # a third of the time of dict(mapping)
                rows.append(row := dict(zip(names, values, strict=True)))
                if (size := size + memory_bytes(row)) >= SCAN_BYTES:
                    return rows, True
        return rows, len(rows) == SCAN_BATCH

    def _store(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        while rows:
            # rows of the same URL are stored one after another
            first = {clean(row["url"]): row for row in reversed(rows)}
            self._store_apart(connection, dict(sorted(first.items())))
            rows = [row for row in rows if first[clean(row["url"])] is not row]

    def _store_apart(self, connection: Connection, rows: Mapping[str, Mapping[str, Any]]) -> None:
        """Stores one row for each of these URLs, in sorted order, so that two writers cannot deadlock."""
        # the pages that may get credit are locked with the others, in the same order
        sources = [source for row in rows.values() if (source := new_link_source(row, None))]
        known = self._known(connection, [*rows, *map(clean, sources)])
        hosts = self._hosts_of_signals(rows, known) if self._dates else {}
        signals = self._signals(connection, hosts.values())
        learned: defaultdict[str, dict[str, SignalCounts]] = defaultdict(dict)
        new_links = Counter[str]()
        written: defaultdict[WriteStatement, list[dict[str, Any]]] = defaultdict(list)
        earlier, full = [], []
        for url, row in rows.items():
            before, host = known.get(url), hosts.get(url)
            if before is not None and host is not None:
                before["host_signals"] = signals.get(host)
            kept, past, brought_nothing, lessons = follow(row, before, self._dates)
            if host is not None:
                for kind, counts in lessons.items():
                    learned[host][kind] = learned[host].get(kind, SignalCounts()).merged(counts)
            written[self._statement(row, before, brought_nothing)].append({**row, **kept})
            if past is not None and self._history:
                earlier.append(past)
                if kept["fetches"] > self._history + 1:
                    full.append(url)
            if source := new_link_source(row, before):
                new_links[clean(source)] += 1
        remembered = {self._statements.remember: earlier} if earlier else {}
        for statement, batch in (remembered | written).items():
            statement.store(connection, batch)
        if new_links:
            credited = [{"url": url, "new_links": number} for url, number in new_links.items()]
            self._statements.credit.store(connection, credited)
        if learned:
            self._learn(connection, signals, learned)
        if full:
            self._forget(connection, full)

    def _hosts_of_signals(
        self, rows: Mapping[str, Mapping[str, Any]], known: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, str]:
        """Returns URL -> host for those of these known pages whose changes something tells."""
        hosts = {}
        for url, row in rows.items():
            if (before := known.get(url)) and (before["signals"] or describes_changes(row)):
                with suppress(InvalidURL):  # a local file
                    hosts[url] = split(url)[0]
        return hosts

    def _signals(self, connection: Connection, hosts: Collection[str]) -> dict[str, dict[str, list[float]]]:
        """Returns the counts of the signals of hosts, locked until the transaction ends."""
        if not hosts:
            return {}
        query = select(host_signals).where(host_signals.c.host.in_(set(hosts)))
        rows = connection.execute(query.order_by(host_signals.c.host).with_for_update())
        return {row.host: row.counts for row in rows}

    def _learn(
        self,
        connection: Connection,
        signals: Mapping[str, Mapping[str, Sequence[float]]],
        learned: Mapping[str, Mapping[str, SignalCounts]],
    ) -> None:
        """Adds to the counts of signals of hosts; another process may have added a host meanwhile."""
        rows = []
        for host, kinds in sorted(learned.items()):
            counts = {kind: SignalCounts(*values) for kind, values in signals.get(host, {}).items()}
            for kind, more in kinds.items():
                counts[kind] = counts.get(kind, SignalCounts()).merged(more)
            values = {kind: [float(f"{number:.9g}") for number in each] for kind, each in counts.items()}
            rows.append({"host": host, "counts": values})
        insert = insert_into(self.database.dialect, host_signals)
        replaced = {"counts": insert.excluded["counts"]}
        connection.execute(insert.on_conflict_do_update(index_elements=["host"], set_=replaced), rows)

    def _statement(
        self, row: Mapping[str, Any], before: Mapping[str, Any] | None, brought_nothing: bool
    ) -> WriteStatement:
        """Returns the statement that stores a row."""
        if before is None:
            return self._statements.add
        if not brought_nothing:
            return self._statements.answer
        holds = row.get("status") == UNCHANGED and row.get("digest") == before["digest"]
        return self._statements.confirm if holds else self._statements.attempt

    def _known(self, connection: Connection, urls: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Returns the rows of known URLs, locked until the transaction ends, with `weight` if pages have weights."""
        look = self._statements.look
        rows = connection.exec_driver_sql(look.text, _url_parameters(connection, urls)).all()
        known = {row["url"]: row for row in map(look.row, rows)}
        if known and self._weights is not None:
            for row in connection.exec_driver_sql(self._weights.text, _url_parameters(connection, urls)):
                weight = self._weights.row(row)
                known[weight["url"]]["weight"] = weight["weight"]
        return known

    def _forget(self, connection: Connection, urls: Sequence[str]) -> None:
        """Deletes the oldest fetches of these URLs, except those that archived the payload of a later fetch."""
        earlier = fetches.alias()
        oldest_kept = (
            select(earlier.c.fetched_at)
            .where(earlier.c.url == bindparam("key"))
            .order_by(earlier.c.fetched_at.desc())
            .offset(self._history - 1)
            .limit(1)
            .scalar_subquery()
        )
        statement = delete(fetches).where(
            fetches.c.url == bindparam("key"), fetches.c.fetched_at < oldest_kept, ~_has_payload(oldest_kept)
        )
        connection.execute(statement, [{"key": url} for url in urls])


def _has_payload(oldest_kept: Any) -> ColumnElement[bool]:
    """Returns the condition for the first fetches of payloads that the row of the URL or kept fetches still have."""
    others, row = fetches.alias(), pages.c
    of_url = others.c.url == fetches.c.url
    same = select(others.c.digest).where(of_url, others.c.digest == fetches.c.digest)
    current = select(row.url).where(row.url == fetches.c.url, row.digest == fetches.c.digest)
    is_first = ~exists(same.where(others.c.fetched_at < fetches.c.fetched_at))
    return and_(is_first, or_(exists(same.where(others.c.fetched_at >= oldest_kept)), exists(current)))


def _url_parameters(connection: Connection | Database, urls: Sequence[str]) -> dict[str, Any]:
    """Returns the parameters of a statement on `urls`: an array in PostgreSQL, a JSON list in SQLite."""
    return {"urls": json.dumps(urls) if connection.dialect.name == "sqlite" else urls}
