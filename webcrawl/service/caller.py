"""The senders of requests, by their token, and the URLs that each may have fetched in an hour."""

from __future__ import annotations

import hashlib
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import QUOTAS
from webcrawl.engine.scripts import script_call
from webcrawl.service.problem import ApiProblem, ProblemKind
from webcrawl.web.access import Access, Role

_NAME_DIGITS = 8
_HOUR_MS = 3_600_000


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


class Quota:
    """`per_hour` URLs in an hour, a tenth of them at once; with None any number.

    The engine keeps what is left, so all services share it.
    """

    def __init__(self, engine: Engine, per_hour: float | None) -> None:
        self._engine = engine
        self._per_ms = (per_hour or 0.0) / _HOUR_MS
        self._most = max(1.0, (per_hour or 0.0) / 10)

    @asynccontextmanager
    async def taken(self, caller: str, urls: int) -> AsyncIterator[None]:
        """Takes URLs for the block, which gives them back by an exception.

        Raises ApiProblem with the seconds until there are enough, and the errors of UNAVAILABLE.
        """
        if not self._per_ms:
            yield
            return
        await self._take(caller, urls)
        try:
            yield
        except BaseException:
            with suppress(*UNAVAILABLE):
                await self._change(caller, -urls)
            raise

    async def _take(self, caller: str, urls: int) -> None:
        is_taken, left = await self._change(caller, urls)
        if not is_taken:
            missing = min(urls, self._most) - left
            raise ApiProblem(
                ProblemKind.TOO_MANY_REQUESTS,
                f"the quota of this token allows {math.floor(left):,} more URLs now",
                retry_after=max(1.0, missing / self._per_ms / 1_000),
                reason="quota",
            )

    async def _change(self, caller: str, urls: int) -> tuple[bool, float]:
        call = script_call(
            "take_quota", [f"{QUOTAS}{caller}"], wanted=urls, per_ms=self._per_ms, most=self._most
        )
        reply = await self._engine.run(call)
        return bool(reply.taken), float(reply.left)
