"""The ASGI application of the API: the operations of all modules, their document, and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import TypeAlias

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from webcrawl.config.libraries import prometheus_client
from webcrawl.engine.client import UNAVAILABLE
from webcrawl.errors import LibraryMissing
from webcrawl.service import crawls, events, fetch_pages, jobs, queue_urls, read_pages, search_pages
from webcrawl.service.gate import ServiceGate
from webcrawl.service.hooks import operations as webhook_operations
from webcrawl.service.openapi import CONTENT_SECURITY_POLICY, openapi_document, reference_page
from webcrawl.service.operation import Operation, problem_response
from webcrawl.service.problem import ApiProblem, ProblemKind
from webcrawl.service.service import Service
from webcrawl.service.service_metrics import service_samples

OperationsOf: TypeAlias = Callable[[Service], Iterable[Operation]]
PARTS: Sequence[OperationsOf] = (
    read_pages.operations,
    search_pages.operations,
    fetch_pages.operations,
    queue_urls.operations,
    events.operations,
    webhook_operations.operations,
    crawls.operations,
    jobs.operations,
)
"""The parts of the API, in the order of its document."""


def create_service(service: Service, parts: Sequence[OperationsOf] = PARTS) -> ServiceGate:
    """Returns the application. Its `close` ends what the service keeps open."""
    service.run(service.keep_callers())
    operations = [operation for part in parts for operation in part(service)]
    document = openapi_document(operations)
    text = msgspec.json.encode(document)
    page = reference_page(operations, document)

    async def show_document(request: Request) -> Response:
        return Response(text, media_type="application/json")

    async def show_page(request: Request) -> Response:
        return Response(
            page, media_type="text/html", headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY}
        )

    async def show_metrics(request: Request) -> Response:
        return await _metrics(service, request)

    routes = [Route("/", show_page), Route("/openapi.json", show_document), Route("/metrics", show_metrics)]
    routes += [
        Route(operation.path, operation.__call__, methods=[operation.method], name=operation.name)
        for operation in operations
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused})
    app.router.redirect_slashes = False
    return ServiceGate(app, service.access, service.tally, service.close)


async def _metrics(service: Service, request: Request) -> Response:
    """Answers the metrics of the service, for a token as any other address."""
    try:
        prometheus_client()
        from webcrawl.metrics.exposition import exposition

        samples = await service_samples(service)
    except (LibraryMissing, *UNAVAILABLE) as error:
        return problem_response(ApiProblem(ProblemKind.UNAVAILABLE, str(error)), request.state.request_id)
    text, content_type = exposition({"": samples}, accept=request.headers.get("accept", ""))
    return Response(text, headers={"Content-Type": content_type})


async def _refused(request: Request, error: Exception) -> Response:
    """Answers an unknown address or a wrong method."""
    assert isinstance(error, HTTPException)
    wrong_method = error.status_code == HTTPStatus.METHOD_NOT_ALLOWED
    kind = ProblemKind.WRONG_METHOD if wrong_method else ProblemKind.NOT_FOUND
    problem = ApiProblem(
        kind, f"there is no {request.url.path!r}" if not wrong_method else "", headers=error.headers
    )
    return problem_response(problem, request.state.request_id)
