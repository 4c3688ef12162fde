"""The tables of jobs and their iterations in the metadata database.

Each statement of a scheduler that changes an iteration names the `fence` that the scheduler got with the iteration.
The lock is in the database even if there is an engine: a transaction cannot check a lock in another system, so a
scheduler that was suspended for a minute could write after the loss of the lock.
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
    # the time up to which firings are decided
    Column("decided", UtcTime, nullable=False),
    # the number of iterations of the job, including deleted iterations
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
    # why the iteration must be stopped, or None
    Column("stop", Text),
    # the scheduler that runs the iteration, and its machine; None: any scheduler may take the iteration
    Column("holder", Text),
    Column("machine", Text),
    # how many times a scheduler took the iteration
    Column("fence", Integer, nullable=False),
    # the number of signs of life of the holder
    Column("beat", BigInteger, nullable=False),
    # when retention deleted the stored data; the row stays as history
    Column("deleted", UtcTime),
    # when a scheduler or an operator created the iteration
    Column("fired", UtcTime),
    UniqueConstraint("job", "due"),
    UniqueConstraint("job", "number"),
    Index("iterations_of_state", "state"),
)

JOBS = Schema("jobs_version", 2, jobs, iterations)
