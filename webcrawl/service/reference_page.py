"""The page at `/` that describes the API to people: static HTML without scripts and outside resources."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from webcrawl.service.operation import Operation
from webcrawl.service.problem import STATUSES, TITLES, ProblemKind

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
