"""A connection to a PostgreSQL server that may hang: stopped, swapping, behind a network that drops what is sent.

Such a server's kernel goes on to take what it is sent, so nothing but time tells; and without a limit its clients wait
for ever. Imported when a database is PostgreSQL's, since only then the driver must be there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection, OperationalError
from psycopg.abc import RV, PQGen

ANSWER_SECONDS = 20.0
"""For one statement, or one batch of rows. A server that takes longer cannot keep up with any crawl."""


class AnsweringConnection(Connection[Any]):
    """Closes itself and raises OperationalError when the server says nothing for `ANSWER_SECONDS`.

    What the server had begun it undoes when it goes on and finds that nobody is there, unless it was a commit.
    """

    at_leisure = False
    """What is asked may take any time."""

    def wait(self, gen: PQGen[RV], interval: float = 1.0, timeout: float | None = None) -> RV:
        limit = timeout or (None if self.at_leisure else ANSWER_SECONDS)
        began = time.monotonic()
        try:
            return super().wait(gen, interval, limit)
        except OperationalError as error:
            if timeout or limit is None or time.monotonic() - began < limit:
                raise
            self.close()
            raise OperationalError(f"no answer for {limit:g} seconds") from error


@contextmanager
def at_leisure(connection: Any) -> Iterator[None]:
    """Let what is asked over this connection take any time: it may read or change whole tables."""
    connection.at_leisure = True
    try:
        yield
    finally:
        connection.at_leisure = False
