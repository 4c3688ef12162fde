"""The description of the API, made from its operations: for programs in OpenAPI 3.1, and for people as a page at `/`.

The page is static HTML without scripts and outside resources.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from html import escape
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
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 14px/1.5 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid color-mix(in srgb, currentColor 25%, transparent); }
h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .25rem 1rem .25rem 0; }
.method { display: inline-block; min-width: 3.5rem; font-weight: 700; }
"""
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


def openapi_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Returns the OpenAPI document. Schemas of parameters are written out; those of bodies are components."""
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


def reference_page(operations: Sequence[Operation], document: dict[str, Any]) -> str:
    """Returns the page as HTML; `document` is the OpenAPI document of these operations."""
    return "".join(_page(operations, document))


def _page(operations: Sequence[Operation], document: dict[str, Any]) -> Iterator[str]:
    yield f'<!doctype html><html lang="en"><meta charset="utf-8"><title>webcrawl API</title><style>{_STYLE}</style>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1"><main><h1>webcrawl API</h1>'
    yield f"<p>Version {escape(document['info']['version'])}. "
    yield 'For programs: <a href="/openapi.json">openapi.json</a> (OpenAPI 3.1).</p><h2>Endpoints</h2><ul>'
    for operation in operations:
        yield f'<li><a href="#{operation.name}"><code>{_line(operation)}</code></a> {escape(operation.summary)}'
    yield "</ul>"
    for operation in operations:
        yield from _section(operation, document)
    yield "<h2>Types</h2>"
    for name, schema in document["components"]["schemas"].items():
        yield f'<h3 id="type-{escape(name)}">{escape(name)}</h3>{_as_json(schema)}'
    yield "<h2>Problems</h2><table><tr><th>type<th>status<th>meaning</tr>"
    for kind in ProblemKind:
        yield f'<tr id="problem-{kind}"><td><code>{kind}</code><td>{int(STATUSES[kind])}<td>{escape(TITLES[kind])}</tr>'
    yield "</table></main></html>"


def _section(operation: Operation, document: dict[str, Any]) -> Iterator[str]:
    yield f'<h2 id="{operation.name}">{escape(operation.summary)}</h2><p><code>{_line(operation)}</code></p>'
    if operation.description:
        yield f"<p>{escape(operation.description)}</p>"
    yield f"<p>Role: {operation.role}</p>"
    path = operation.path.replace(":path}", "}")
    described = document["paths"][path][operation.method.lower()]
    if parameters := described["parameters"]:
        yield "<table><tr><th>parameter<th>in<th>description</tr>"
        for parameter in parameters:
            name, where, text = map(escape, (parameter["name"], parameter["in"], parameter["description"]))
            yield f"<tr><td><code>{name}</code><td>{where}<td>{text}</tr>"
        yield "</table>"
    if "requestBody" in described:
        yield f"<p>Body</p>{_as_json(described['requestBody']['content'])}"
    answers = {
        status: answer.get("content", {}) for status, answer in described["responses"].items() if status < "4"
    }
    yield f"<p>Answers</p>{_as_json(answers)}"


def _line(operation: Operation) -> str:
    path = escape(operation.path.replace(":path}", "}"))
    return f'<span class="method">{operation.method}</span> {path}'


def _as_json(value: Any) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2))}</pre>"
