"""An engine behind a connection that loses replies again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from webcrawl.engine.client import Engine
from webcrawl.engine.scripts import Call
from webcrawl.errors import EngineUnavailable


class Losing(Engine):
    """Loses the reply of every `every`-th call of `scripts`, after the server has run it."""

    scripts: tuple[str, ...] = ("heartbeat", "permit", "acknowledge")
    every = 2
    calls = 0

    async def run_all(self, calls: Sequence[Call], *, some: bool = False) -> list[Any]:
        replies = await super().run_all(calls, some=some)
        if calls and calls[0].script in self.scripts:
            self.calls += 1
            if self.calls % self.every == 0:
                lost = EngineUnavailable("the connection was lost")
                if not some:
                    raise lost
                return [lost] * len(calls)
        return replies
