"""What both clients share: requests and answers of the API, and when a request is sent again."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from webcrawl.errors import ServiceProblem, ServiceUnreachable

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8790"
MOST_URLS = 300
"""The most URLs of a request."""
_TRIES = 5
_LONGEST_PAUSE = 30.0
_LATER = (429, 503)
_NO_CONTENT = b"null"


class ServiceRequest(NamedTuple, Generic[T]):
    """A request, and the type of its answer. `again`: it may be sent twice, as it changes nothing."""

    method: str
    path: str
    answer: type[T]
    params: Mapping[str, str] = {}
    body: Any = None
    again: bool = True
    wait: float = 0.0
    """The seconds that the service may wait before it answers."""
    pause: float = 0.0
    """The seconds to wait before the request is sent."""


def options(url: str, token: str, timeout: float) -> dict[str, Any]:
    """Returns the arguments of an httpx client."""
    headers = {"User-Agent": "webcrawl-client"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    # the environment's proxies are for the web, not for the service
    return {"base_url": url.rstrip("/"), "headers": headers, "timeout": timeout, "trust_env": False}


def arguments(request: ServiceRequest[T], timeout: float) -> dict[str, Any]:
    """Returns the arguments of `httpx.Client.request`."""
    given: dict[str, Any] = {"params": dict(request.params), "timeout": timeout + request.wait}
    if request.body is not None:
        given |= {
            "content": msgspec.json.encode(request.body),
            "headers": {"Content-Type": "application/json"},
        }
    return given


def answer_of(request: ServiceRequest[T], response: httpx.Response) -> T:
    """Returns the answer; raises ServiceProblem."""
    check(response)
    try:
        return msgspec.json.decode(response.content or _NO_CONTENT, type=request.answer)
    except msgspec.MsgspecError as error:
        raise ServiceProblem(response.status_code, detail=f"the answer cannot be read: {error}") from error


def check(response: httpx.Response) -> None:
    """Raises ServiceProblem unless a response, whose body is read, is a success."""
    if response.is_success:
        return
    try:
        problem = msgspec.json.decode(response.content, type=_Problem)
    except msgspec.MsgspecError:
        problem = _Problem(detail=response.reason_phrase)
    raise ServiceProblem(
        response.status_code,
        kind=problem.type.rpartition("#problem-")[2],
        title=problem.title,
        detail=problem.detail,
        request_id=problem.request_id or response.headers.get("x-request-id", ""),
        retry_after=problem.retry_after,
    )


def pause_before_retry(
    request: ServiceRequest[Any], failure: httpx.TransportError | httpx.Response, tries: int
) -> float | None:
    """Returns the seconds to wait before a request is sent again, None if it is not."""
    if tries >= _TRIES:
        return None
    # full jitter, as many clients may have failed together
    backoff = random.uniform(0, min(_LONGEST_PAUSE, 0.25 * 2.0**tries))
    if isinstance(failure, httpx.Response):
        if failure.status_code not in _LATER:
            return None
        after = failure.headers.get("retry-after", "")
        return min(_LONGEST_PAUSE, float(after) if after.isascii() and after.isdigit() else 1.0) + backoff
    sent = not isinstance(failure, httpx.ConnectError | httpx.ConnectTimeout)
    return None if sent and not request.again else backoff


def unreachable(url: str, error: httpx.TransportError) -> ServiceUnreachable:
    """Returns the error of a service that does not answer."""
    return ServiceUnreachable(f"no answer of the service at {url}: {error or type(error).__name__}")


def page_path(url: str) -> str:
    """Returns the path of a stored page."""
    return f"/v1/pages/{quote(url, safe='')}"


def named_path(kind: str, name: str, verb: str = "") -> str:
    """Returns the path of a crawl or job, or of a change of it: named_path("crawls", "books", "pause")."""
    return f"/v1/{kind}/{quote(name, safe='')}" + (f":{verb}" if verb else "")


def batches(urls: Iterable[str]) -> list[Sequence[str]]:
    """Returns URLs, each once, in groups of a request's size."""
    each = list(dict.fromkeys(urls))
    return [each[begin : begin + MOST_URLS] for begin in range(0, len(each), MOST_URLS)]


class _Problem(msgspec.Struct):
    type: str = ""
    title: str = ""
    detail: str = ""
    request_id: str = ""
    retry_after: float | None = None
