"""The senders of requests: found by their token."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from webcrawl.web.access import Access, Role

_NAME_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request. `name` tells callers apart in metrics and logs without their tokens."""

    name: str
    role: Role


class Callers:
    """The callers by token."""

    def __init__(self, access: Access) -> None:
        self._everybody = Caller("open", access.role) if access.is_open else None
        # a look-up of a digest takes no time that tells something about a token
        self._by_digest = {
            digest: Caller(digest.hex()[:_NAME_DIGITS], role)
            for digest, role in ((_digest(token), role) for token, role in access.tokens.items())
        }

    def of(self, authorization: str) -> Caller | None:
        """Returns the sender of the header Authorization; None without a valid token, where one is needed."""
        if self._everybody is not None:
            return self._everybody
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        return self._by_digest.get(_digest(token.strip()))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
