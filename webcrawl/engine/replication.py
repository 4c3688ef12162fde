"""Batches of commands that count only once a replica has them.

Replication is asynchronous: a primary that dies may lose writes that it had acknowledged. So each batch ends with a
WAIT on the same connection, as long as the primary has a replica.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from webcrawl.errors import EngineUnavailable

_REPLICA_MS = 1000
"""Time for a replica to confirm. If a replica hangs, workers wait until its primary drops it (repl-timeout)."""


class Command(NamedTuple):
    """The words of a command, and a key, which determines its server."""

    key: str
    words: Sequence[str | bytes | int | float]


class Replication:
    """Ends the batches for one primary with ROLE and WAIT, and reads their replies."""

    def __init__(self, *, replicated: bool) -> None:
        self._replicated = replicated
        """Whether the last reply named a replica."""

    def ending(self) -> list[Sequence[str | int]]:
        """Returns the commands that end a batch."""
        return [("ROLE",), ("WAIT", int(self._replicated), _REPLICA_MS)]

    def is_primary(self, replies: Sequence[Any]) -> bool:
        """Whether the server that gave these replies was a primary."""
        role = replies[-2]
        return not isinstance(role, Exception) and role[0] == b"master"

    @staticmethod
    def has_replica(replies: Sequence[Any]) -> bool:
        """Whether the primary that gave these replies had a replica."""
        return bool(replies[-2][2])

    def confirmed(self, replies: Sequence[Any], server: str) -> list[Any]:
        """Returns the replies of a primary to a batch; an error replaces each reply that no replica has confirmed."""
        *given, role, confirmed = replies
        waited, self._replicated = self._replicated, bool(role[2])
        if waited and role[2] and (isinstance(confirmed, Exception) or not confirmed):
            error = EngineUnavailable(f"no replica of {server} has confirmed the write")
            return [reply if isinstance(reply, Exception) else error for reply in given]
        return given
