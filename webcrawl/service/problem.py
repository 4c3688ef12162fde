"""Errors of the API as problem details (RFC 9457)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated

from msgspec import Meta, Struct

from webcrawl.errors import ApiProblem

__all__ = [
    "PROBLEM_JSON",
    "REFUSALS",
    "STATUSES",
    "TITLES",
    "ApiProblem",
    "ProblemDetails",
    "ProblemKind",
    "problem_details",
    "problem_headers",
]

PROBLEM_JSON = "application/problem+json"


class ProblemKind(StrEnum):
    """The kinds of errors. The `type` of a problem is `/#problem-` and the kind."""

    BAD_REQUEST = "bad-request"
    UNKNOWN_TOKEN = "unknown-token"
    ROLE_MISSING = "role-missing"
    OTHER_SITE = "other-site"
    NOT_FOUND = "not-found"
    NOT_STORED = "not-stored"
    WRONG_METHOD = "wrong-method"
    TOO_SLOW = "too-slow"
    CONFLICT = "conflict"
    TOO_LONG = "too-long"
    NOT_JSON = "not-json"
    UNKNOWN_HOST = "unknown-host"
    TOO_MANY_REQUESTS = "too-many-requests"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"


STATUSES: Mapping[ProblemKind, HTTPStatus] = {
    ProblemKind.BAD_REQUEST: HTTPStatus.BAD_REQUEST,
    ProblemKind.UNKNOWN_TOKEN: HTTPStatus.UNAUTHORIZED,
    ProblemKind.ROLE_MISSING: HTTPStatus.FORBIDDEN,
    ProblemKind.OTHER_SITE: HTTPStatus.FORBIDDEN,
    ProblemKind.NOT_FOUND: HTTPStatus.NOT_FOUND,
    ProblemKind.NOT_STORED: HTTPStatus.NOT_FOUND,
    ProblemKind.WRONG_METHOD: HTTPStatus.METHOD_NOT_ALLOWED,
    ProblemKind.TOO_SLOW: HTTPStatus.REQUEST_TIMEOUT,
    ProblemKind.CONFLICT: HTTPStatus.CONFLICT,
    ProblemKind.TOO_LONG: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ProblemKind.NOT_JSON: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    ProblemKind.UNKNOWN_HOST: HTTPStatus.MISDIRECTED_REQUEST,
    ProblemKind.TOO_MANY_REQUESTS: HTTPStatus.TOO_MANY_REQUESTS,
    ProblemKind.FAILED: HTTPStatus.INTERNAL_SERVER_ERROR,
    ProblemKind.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
}
REFUSALS = frozenset(
    {
        ProblemKind.UNKNOWN_TOKEN,
        ProblemKind.ROLE_MISSING,
        ProblemKind.OTHER_SITE,
        ProblemKind.UNKNOWN_HOST,
        ProblemKind.TOO_MANY_REQUESTS,
    }
)
"""The kinds of requests that were refused because of who sent them, or when."""
TITLES: Mapping[ProblemKind, str] = {
    ProblemKind.BAD_REQUEST: "The request is not valid.",
    ProblemKind.UNKNOWN_TOKEN: "The request needs a valid token: Authorization: Bearer TOKEN.",
    ProblemKind.ROLE_MISSING: "The role of this token does not allow the request.",
    ProblemKind.OTHER_SITE: "A page of another site sent the request.",
    ProblemKind.NOT_FOUND: "There is no such address, crawl, job or request.",
    ProblemKind.NOT_STORED: "No page of this URL is stored.",
    ProblemKind.WRONG_METHOD: "The address does not have this method.",
    ProblemKind.TOO_SLOW: "The body of the request did not arrive in time.",
    ProblemKind.CONFLICT: "The state of the crawl or job does not allow the request.",
    ProblemKind.TOO_LONG: "The body of the request is too long.",
    ProblemKind.NOT_JSON: "The body of the request needs Content-Type: application/json.",
    ProblemKind.UNKNOWN_HOST: "The service does not have this host name: start it with --name NAME.",
    ProblemKind.TOO_MANY_REQUESTS: "Too many requests: repeat it after the seconds of Retry-After.",
    ProblemKind.FAILED: "The service failed. Its log has the reason, by the request ID.",
    ProblemKind.UNAVAILABLE: "The engine or the database cannot be reached now.",
}


class ProblemDetails(Struct, omit_defaults=True):
    """An error as RFC 9457 describes it. `request_id` is also in the header X-Request-Id."""

    type: Annotated[str, Meta(description="The kind of the error, as the address of its description.")]
    title: str
    status: Annotated[int, Meta(ge=400, le=599)]
    detail: str = ""
    request_id: str = ""
    retry_after: Annotated[float | None, Meta(description="Seconds to wait before the next try.")] = None


def problem_details(problem: ApiProblem, request_id: str) -> ProblemDetails:
    """Returns the body of an answer."""
    kind = ProblemKind(problem.kind)
    return ProblemDetails(
        f"/#problem-{kind}", TITLES[kind], STATUSES[kind], problem.detail, request_id, problem.retry_after
    )


def problem_headers(problem: ApiProblem) -> dict[str, str]:
    """Returns the headers of an answer."""
    headers = dict(problem.headers)
    if problem.retry_after is not None:
        headers["Retry-After"] = str(max(1, math.ceil(problem.retry_after)))
    if problem.kind == ProblemKind.UNKNOWN_TOKEN:
        headers["WWW-Authenticate"] = 'Bearer realm="webcrawl"'
    return headers
