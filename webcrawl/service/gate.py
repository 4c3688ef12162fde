"""The middleware around the API: request IDs, allowed hosts, tokens, requests of other sites, security headers."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from webcrawl.service.caller import Caller, Callers
from webcrawl.service.operation import problem_response
from webcrawl.service.problem import REFUSALS, ApiProblem, ProblemKind
from webcrawl.service.tally import ServiceTally
from webcrawl.web.access import Access, WrongTokens
from webcrawl.web.guard import is_same_site

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SAFE = ("GET", "HEAD")
_FREE = frozenset({"/", "/openapi.json"})
"""Paths that need no token."""
_WRONG_SECONDS = 1.0
_OTHER = "other"
"""What is no operation: the document, its page, metrics, unknown addresses, and refused requests."""
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
)


class ServiceGate:
    """An ASGI application around the API, to which it passes only requests of known callers.

    The state of a request has its `caller` and its `request_id`: that of the header X-Request-Id, or a new one.
    """

    def __init__(
        self, app: ASGIApp, access: Access, tally: ServiceTally, close: Callable[[], Awaitable[None]]
    ) -> None:
        self._app = app
        self._access = access
        self._callers = Callers(access)
        self._wrong = WrongTokens()
        self._tally = tally
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        given = request.headers.get("x-request-id", "")
        state = request.state
        state.request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        # an operation names itself
        state.caller = state.problem = None
        state.operation = _OTHER
        traces = self._tally.traces
        with nullcontext() if traces is None else traces.request(request.method, request.headers) as span:
            await self._answer(request, receive, self._noting(request, span, send))

    async def _answer(self, request: Request, receive: Receive, send: Send) -> None:
        state = request.state
        try:
            state.caller = await self._admit(request)
        except ApiProblem as problem:
            state.problem = problem
            await problem_response(problem, state.request_id)(request.scope, receive, send)
            return
        await self._app(request.scope, receive, send)

    def _noting(self, request: Request, span: Any, send: Send) -> Send:
        """Returns a `send` that adds headers to an answer and counts it. `span`: of a traced request, or None."""
        began = time.monotonic()

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                state, status = request.state, message["status"]
                add_headers(message, state.request_id)
                self._tally.answered(state.operation, status, time.monotonic() - began)
                if state.problem is not None and state.problem.kind in REFUSALS:
                    token = state.caller.name if state.caller else ""
                    self._tally.refusals[state.problem.reason, token] += 1
                if span is not None:
                    from webcrawl.service.request_traces import answered

                    answered(span, state.operation, state.request_id, status)
            await send(message)

        return note

    async def close(self) -> None:
        """Ends what the API keeps open."""
        await self._close()

    async def _admit(self, request: Request) -> Caller | None:
        """Returns who sent a request, None for a path that needs no token; raises ApiProblem."""
        if not self._access.allows_host(request.headers.get("host", "")):
            raise ApiProblem(ProblemKind.UNKNOWN_HOST)
        if request.method not in _SAFE and not is_same_site(request):
            raise ApiProblem(ProblemKind.OTHER_SITE)
        authorization = request.headers.get("authorization", "")
        address = request.client.host if request.client else ""
        if authorization and not self._access.is_open and not self._wrong.may_try(address):
            raise ApiProblem(
                ProblemKind.TOO_MANY_REQUESTS,
                "too many wrong tokens came from this address",
                retry_after=60,
                reason="wrong-tokens",
            )
        caller = self._callers.of(authorization)
        if caller is None and request.scope["path"] not in _FREE:
            if authorization:
                self._wrong.note(address)
                await asyncio.sleep(_WRONG_SECONDS)
            raise ApiProblem(ProblemKind.UNKNOWN_TOKEN)
        return caller


def add_headers(message: Message, request_id: str) -> None:
    """Adds the headers that each answer has to the head of an answer."""
    headers: list[Any] = message["headers"]
    names = {name for name, _ in headers}
    headers.extend(header for header in _HEADERS if header[0] not in names)
    headers.append((b"x-request-id", request_id.encode()))
