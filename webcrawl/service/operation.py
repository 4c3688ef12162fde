"""An endpoint of the API: its address, its types, and how a request becomes a call of its function."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from redis.exceptions import RedisError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from webcrawl.errors import (
    ConfigurationError,
    CrawlError,
    EngineUnavailable,
    InvalidURL,
    LiveLaneFull,
    StoreUnavailable,
)
from webcrawl.service.caller import Caller
from webcrawl.service.problem import (
    PROBLEM_JSON,
    ApiProblem,
    ProblemKind,
    problem_details,
    problem_headers,
)
from webcrawl.web.access import Role

_BODY_SECONDS = 20.0
_MOST_BODY = 1 << 20
_JSON = "application/json"
_SURROGATES = re.compile(
    rb"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(?P<half>\\ud[89a-f][0-9a-f]{2})|\\.",
    re.IGNORECASE | re.DOTALL,
)
"""Escapes in JSON: a pair of surrogates, half of a pair, or another."""
_encode = msgspec.json.Encoder().encode
logger = logging.getLogger(__name__)

AnswerType: TypeAlias = Any
"""A type that msgspec knows, usually a Struct; None for an answer without a body."""


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A valid request. `query` and `body` have the types of the operation, None if it has none."""

    request: Request
    caller: Caller
    id: str
    query: Any
    body: Any

    def path(self, name: str) -> str:
        """Returns a part of the path."""
        return str(self.request.path_params[name])


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """A value to be sent as JSON. `status` is one of the operation's answers."""

    value: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """An endpoint.

    `handle` returns a value, an `ApiAnswer` or a Response of Starlette, and raises `ApiProblem`. Other exceptions of
    the project become problems: InvalidURL and ConfigurationError bad requests, LiveLaneFull `too-many-requests`,
    EngineUnavailable and StoreUnavailable `unavailable`; all others `failed`, with a traceback in the log. `answers`:
    status -> type. `media_type` is that of all answers; other than JSON, they have no schema. `problems` are the kinds
    besides those that each operation has.
    """

    name: str
    """The `operationId`, such as readPages."""
    method: str
    path: str
    """As Starlette writes it: /v1/pages/{url:path}."""
    summary: str
    handle: Callable[[ApiCall], Awaitable[Any]]
    description: str = ""
    tag: str = "pages"
    role: Role = Role.READER
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Part of the path -> its description."""
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    answers: Mapping[int, AnswerType] = field(default_factory=lambda: {200: None})
    media_type: str = _JSON
    problems: tuple[ProblemKind, ...] = ()
    most_body: int = _MOST_BODY
    """The most bytes of a body."""

    def __post_init__(self) -> None:
        # made once: a decoder is ten times as fast as msgspec.json.decode
        decoder = None if self.body is None else msgspec.json.Decoder(self.body)
        object.__setattr__(self, "_decoder", decoder)

    async def __call__(self, request: Request) -> Response:
        """Answers a request."""
        request_id: str = request.state.request_id
        request.state.operation = self.name
        try:
            caller: Caller = request.state.caller
            if self.role is Role.OPERATOR and caller.role is not Role.OPERATOR:
                raise ApiProblem(ProblemKind.ROLE_MISSING)
            query, body = self._query(request), await self._body(request)
            answer = await self.handle(ApiCall(request, caller, request_id, query, body))
        except Exception as error:
            request.state.problem = problem = _as_problem(error, request_id)
            return problem_response(problem, request_id)
        if isinstance(answer, Response):
            return answer
        if not isinstance(answer, ApiAnswer):
            return Response(_encode(answer), media_type=_JSON)
        content = b"" if answer.value is None else _encode(answer.value)
        return Response(content, answer.status, dict(answer.headers), _JSON if content else None)

    def _query(self, request: Request) -> msgspec.Struct | None:
        items = request.query_params.multi_items() if request.scope["query_string"] else []
        if self.query is None:
            if items:
                raise ApiProblem(ProblemKind.BAD_REQUEST, f"there is no parameter {items[0][0]!r}")
            return None
        if len(given := dict(items)) < len(items):
            raise ApiProblem(ProblemKind.BAD_REQUEST, "a parameter is given twice")
        try:
            return msgspec.convert(given, self.query, strict=False)
        except msgspec.ValidationError as error:
            raise ApiProblem(ProblemKind.BAD_REQUEST, f"parameters: {error}") from error

    async def _body(self, request: Request) -> Any:
        decoder: msgspec.json.Decoder[Any] | None = getattr(self, "_decoder", None)
        if decoder is None:
            return None
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
            raise ApiProblem(ProblemKind.NOT_JSON)
        if (coding := request.headers.get("content-encoding", "identity").strip().lower()) != "identity":
            raise ApiProblem(ProblemKind.NOT_JSON, f"Content-Encoding {coding!r}: send the body uncompressed")
        content = await received_body(request, self.most_body)
        try:
            return decoder.decode(content)
        except msgspec.ValidationError as error:
            raise ApiProblem(ProblemKind.BAD_REQUEST, f"body: {error}") from error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ApiProblem(ProblemKind.BAD_REQUEST, f"body: {_half_pair(content) or error}") from error


def _half_pair(content: bytes) -> str:
    """Describes the first half of a surrogate pair in JSON, which the decoder calls truncated; "" without any."""
    for pair in _SURROGATES.finditer(content):
        if pair["half"]:
            half = pair["half"].decode()
            return f"{half} (byte {pair.start('half')}) is half of a surrogate pair, and no character"
    return ""


async def received_body(request: Request, most: int) -> bytes:
    """Returns a body of at most `most` bytes that arrives in time; raises ApiProblem."""
    announced = request.headers.get("content-length", "0")
    # a digit of Unicode is none of HTTP; the server has refused what is no number
    if announced.isascii() and announced.isdigit() and int(announced) > most:
        raise ApiProblem(
            ProblemKind.TOO_LONG, f"at most {most:,} bytes are read", headers={"Connection": "close"}
        )
    parts, size = [], 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                parts.append(part)
                if (size := size + len(part)) > most:
                    raise ApiProblem(
                        ProblemKind.TOO_LONG,
                        f"at most {most:,} bytes are read",
                        headers={"Connection": "close"},
                    )
    except TimeoutError as error:
        raise ApiProblem(ProblemKind.TOO_SLOW, headers={"Connection": "close"}) from error
    return b"".join(parts)


def problem_response(problem: ApiProblem, request_id: str) -> Response:
    """Returns the answer to a request that failed."""
    details = problem_details(problem, request_id)
    return Response(_encode(details), details.status, problem_headers(problem), PROBLEM_JSON)


def _as_problem(error: Exception, request_id: str) -> ApiProblem:
    if isinstance(error, ApiProblem):
        return error
    if isinstance(error, ClientDisconnect):
        return ApiProblem(ProblemKind.BAD_REQUEST, "the client closed the connection")
    if isinstance(error, InvalidURL | ConfigurationError):
        return ApiProblem(ProblemKind.BAD_REQUEST, str(error))
    if isinstance(error, LiveLaneFull):
        return ApiProblem(
            ProblemKind.TOO_MANY_REQUESTS, str(error), retry_after=error.retry_after, reason="lane"
        )
    if isinstance(error, EngineUnavailable | StoreUnavailable | RedisError):
        return ApiProblem(ProblemKind.UNAVAILABLE, retry_after=1)
    level = logging.WARNING if isinstance(error, CrawlError) else logging.ERROR
    logger.log(level, "Request %s failed", request_id, exc_info=error)
    return ApiProblem(ProblemKind.FAILED)
