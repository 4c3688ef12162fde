"""The service that says whether the server serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from webcrawl.errors import CallRefused
from webcrawl.urlfrontier.calls import GrpcStatus
from webcrawl.urlfrontier.messages import HealthList, HealthResponse

_SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = (
    HealthResponse.ServingStatus.Value(name) for name in ("SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
)


class Health:
    """Answers grpc.health.v1.Health: all services have the same status, and so has the server, named by no text."""

    def __init__(self, services: Sequence[str]) -> None:
        self._services = ("", *services)
        self._status = _NOT_SERVING
        self._is_ending = False
        self._changed = asyncio.Event()

    def set(self, *, serving: bool) -> None:
        """Says from now on whether the server serves."""
        status = _SERVING if serving and not self._is_ending else _NOT_SERVING
        if status != self._status:
            self._status = status
            self._notify()

    def end(self) -> None:
        """Says that the server does not serve, and ends the calls that wait for changes."""
        self._is_ending = True
        self._status = _NOT_SERVING
        self._notify()

    async def check(self, request: Any) -> Any:
        if request.service not in self._services:
            raise CallRefused(GrpcStatus.NOT_FOUND, f"service {request.service!r}: unknown here")
        return HealthResponse(status=self._status)

    async def list(self, request: Any) -> Any:
        return HealthList(statuses={name: HealthResponse(status=self._status) for name in self._services})

    async def watch(self, request: Any) -> AsyncGenerator[Sequence[Any]]:
        is_known = request.service in self._services
        last = None
        while True:
            status = self._status if is_known else _SERVICE_UNKNOWN
            changed = self._changed
            if status != last:
                last = status
                yield [HealthResponse(status=status)]
            if self._is_ending:
                return
            await changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
