"""The tables of jobs and their iterations in the metadata database.

Every change of an iteration by a scheduler names the `fence` that it got when it took the iteration, in the statement
that makes the change. The lock is in the database, also where there is an engine: a lock elsewhere cannot be compared
in the transaction that it guards, so a scheduler that was stopped for a minute would write after it has lost it.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, Text, UniqueConstraint

from webcrawl.stores.columns import CleanText, Structure, UtcTime
from webcrawl.stores.schema import Schema

_tables = MetaData()

jobs = Table(
    "jobs",
    _tables,
    Column("name", Text, primary_key=True),
    Column("definition", Structure, nullable=False),
    Column("state", Text, nullable=False),
    Column("owner", CleanText),
    Column("applied", UtcTime, nullable=False),
    # firings that were due until then are decided
    Column("decided", UtcTime, nullable=False),
    # iterations that the job has had, also those that were deleted
    Column("iterations", Integer, nullable=False),
)

iterations = Table(
    "iterations",
    _tables,
    Column("id", Integer, primary_key=True),
    Column("job", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("crawl", Text, nullable=False),
    Column("due", UtcTime, nullable=False),
    Column("started", UtcTime),
    Column("ended", UtcTime),
    Column("state", Text, nullable=False),
    Column("reason", CleanText),
    *(
        Column(name, BigInteger, nullable=False)
        for name in ("found", "queued", "crawled", "processed", "stuck")
    ),
    Column("data_dir", CleanText),
    # why it is to be stopped; None: it is not
    Column("stop", Text),
    # the scheduler that runs it, and its machine; None: it may be taken
    Column("holder", Text),
    Column("machine", Text),
    # counts the schedulers that took it
    Column("fence", Integer, nullable=False),
    # counts signs of life of its holder
    Column("beat", BigInteger, nullable=False),
    # what retention has deleted is gone; the row stays as history
    Column("deleted", UtcTime),
    # when a scheduler or an operator made it
    Column("fired", UtcTime),
    UniqueConstraint("job", "due"),
    UniqueConstraint("job", "number"),
    Index("iterations_of_state", "state"),
)

JOBS = Schema("jobs_version", 2, jobs, iterations)
