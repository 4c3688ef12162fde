"""The OpenAPI 3.1 document of the API, made from its operations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from webcrawl.config.program import VERSION
from webcrawl.service.operation import Operation
from webcrawl.service.problem import PROBLEM_JSON, STATUSES, TITLES, ProblemDetails, ProblemKind

_CONVERTER = re.compile(r"\{(\w+)(?::\w+)?\}")
_REFERENCE = "#/components/schemas/{name}"
_COMMON = (
    *(ProblemKind.BAD_REQUEST, ProblemKind.UNKNOWN_TOKEN, ProblemKind.OTHER_SITE, ProblemKind.ROLE_MISSING),
    *(ProblemKind.UNKNOWN_HOST, ProblemKind.TOO_MANY_REQUESTS, ProblemKind.FAILED, ProblemKind.UNAVAILABLE),
)
_WITH_BODY = (ProblemKind.TOO_SLOW, ProblemKind.TOO_LONG, ProblemKind.NOT_JSON)
_REQUEST_ID = {
    "X-Request-Id": {"description": "The ID of the request, as given or new.", "schema": {"type": "string"}}
}


def openapi_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Returns the document. Schemas of parameters are written out; those of bodies are components."""
    types: list[Any] = [ProblemDetails]
    for operation in operations:
        types += [
            known
            for known in (operation.body, operation.query, *operation.answers.values())
            if known is not None
        ]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schema_of = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        path = _CONVERTER.sub(r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _described(operation, schema_of, components)
    queries = {operation.query.__name__ for operation in operations if operation.query}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "webcrawl",
            "version": VERSION,
            "description": "Stored pages and their metadata, pages fetched on request, and what steers crawls.",
        },
        "paths": paths,
        "components": {
            "schemas": {name: schema for name, schema in components.items() if name not in queries},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _described(operation: Operation, schema_of: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [*_path_parameters(operation), *_query_parameters(operation, components)],
        "responses": {**_answers(operation, schema_of), **_problems(operation)},
    }
    if operation.description:
        described["description"] = operation.description
    if operation.body is not None:
        content = {"application/json": {"schema": schema_of[repr(operation.body)]}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": operation.parameters.get(name, ""),
            "schema": {"type": "string", "minLength": 1},
        }
        for name in _CONVERTER.findall(operation.path)
    ]


def _query_parameters(operation: Operation, components: dict[str, Any]) -> list[dict[str, Any]]:
    if operation.query is None:
        return []
    schema = components[operation.query.__name__]
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "description": property_schema.get("description", ""),
            "schema": {key: value for key, value in property_schema.items() if key != "description"},
        }
        for name, property_schema in schema["properties"].items()
    ]


def _answers(operation: Operation, schema_of: dict[str, Any]) -> dict[str, Any]:
    answers: dict[str, Any] = {}
    for status, kind in operation.answers.items():
        answers[str(status)] = answer = {
            "description": HTTPStatus(status).phrase,
            "headers": dict(_REQUEST_ID),
        }
        if kind is not None:
            answer["content"] = {operation.media_type: {"schema": schema_of[repr(kind)]}}
        elif operation.media_type != "application/json":
            answer["content"] = {operation.media_type: {"schema": {"type": "string"}}}
    return answers


def _problems(operation: Operation) -> dict[str, Any]:
    kinds = (*_COMMON, *(_WITH_BODY if operation.body is not None else ()), *operation.problems)
    problems: dict[str, Any] = {}
    for kind in sorted(set(kinds), key=lambda kind: STATUSES[kind]):
        status = str(int(STATUSES[kind]))
        if status in problems:
            problems[status]["description"] += f" Or: {TITLES[kind]}"
            continue
        schema = {"$ref": _REFERENCE.format(name="ProblemDetails")}
        problems[status] = {
            "description": TITLES[kind],
            "headers": dict(_REQUEST_ID),
            "content": {PROBLEM_JSON: {"schema": schema}},
        }
    return problems
