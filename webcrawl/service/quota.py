"""The URLs that each token may have fetched in an hour. The engine keeps what is left, so all services share it."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from webcrawl.engine.client import UNAVAILABLE, Engine
from webcrawl.engine.keys import QUOTAS
from webcrawl.engine.scripts import script_call
from webcrawl.service.problem import ApiProblem, ProblemKind

_HOUR_MS = 3_600_000


class Quota:
    """`per_hour` URLs in an hour, a tenth of them at once; with None any number."""

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
