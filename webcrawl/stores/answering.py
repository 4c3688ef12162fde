"""A connection to a PostgreSQL server with a timeout.

A server that is stopped or swapping, or whose network drops packets, still accepts data, so only a timeout detects it.
This module is imported only for PostgreSQL, because SQLite does not need its driver.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection, OperationalError
from psycopg.abc import RV, PQGen

ANSWER_SECONDS = 20.0
"""The timeout of a statement or a batch of rows. A slower server cannot keep up with a crawl."""


class AnsweringConnection(Connection[Any]):
    """Closes itself and raises OperationalError when the server does not answer for `ANSWER_SECONDS`.

    The server rolls the transaction back when it finds the connection closed, unless it was committing.
    """

    at_leisure = False
    """Whether the next statements have no timeout."""

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
    """Switches the timeout off, for statements that read or change whole tables."""
    connection.at_leisure = True
    try:
        yield
    finally:
        connection.at_leisure = False
