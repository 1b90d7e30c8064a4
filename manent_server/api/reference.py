"""The reference pages of the API: routes, errors and the OpenAPI document."""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from manent_server.api import openapi, problem
from manent_server.api.app import ROUTERS
from manent_server.api.body import MAX_DEPTH
from manent_server.api.fields import PROSE
from manent_server.api.logs import PAGE_BYTES
from manent_server.api.probes import router as probes
from manent_server.api.route import PREFIX, RIGHT
from manent_server.domain import errors
from manent_server.usecases.publish import KEPT

_HEAD = f"""# HTTP API

The machine-readable form is [openapi.json](openapi.json) (OpenAPI 3.1); a server answers with its
own at `{PREFIX}/openapi.json`.

## Rules

- Every route wants `Authorization: Bearer TOKEN`, unknown paths too. Public are `/livez` and
  `/readyz` only; `POST /webhooks/NAME` is for chats and believed by what they sign. A right is
  named with each route: the role `viewer` has `read`, `admin` has all.
- A body is one JSON object in UTF-8, declared as `application/json`, no larger than
  `server.body_limit`, nested at most {MAX_DEPTH} deep. Unknown fields are refused, and so are
  numbers where text is wanted: a version is quoted.
- `Idempotency-Key` (1 to 255 printable ASCII characters) is taken with every POST. The same key,
  path and body again: the same answer with the present state. Another body: 422
  `idempotency_key_reused`.
- A deploy is addressed by its id, a unique beginning of it (6 characters or more), or
  `application/environment#number`, percent-encoded: `shop%2Fproduction%2312`.
- Lists are `{{items, next}}`; `next` is the `before` of the following page, null on the last one.
- Instants are RFC 3339 in UTC. *Prose* is text with a character that shows, and without control
  characters but tabs and ends of lines.
- Every answer carries `X-Request-Id`; a well-formed one that is sent is kept.
- A refusal is `application/problem+json`: see [errors](errors.md).
- A log is read by pages of at most {PAGE_BYTES // 2**20} MiB (`after`, `limit`), or followed with
  `Accept: text/event-stream`: events `line` whose id is the sequence, at last `end` with the
  deploy. A connection that broke is resumed with `Last-Event-ID`. `problem` ends a stream whose
  token has ended or whose deploy is gone. The token is checked anew every 30 seconds, and
  within two seconds after any token or session was ended.
- Events are read and followed in the same way: `event` with the position as its id, and no end.
  Positions have no hole, and an event gets its own after its commit: whoever resumes after the
  last one seen misses none. They are kept for {KEPT.days} days.

## Routes
"""
_ERRORS_HEAD = """# Errors

A refusal has the content type `application/problem+json` (RFC 9457) and these fields: `type`
(`urn:manent:problem:CODE`), `title`, `status`, `detail` (what is wrong, with what), `code` (stable,
for programs), `next` (what to do), `request_id` (as in the log), and `errors` (`[{path, message}]`)
where single fields are wrong. Some carry more, such as the `gates` that are closed. Names apart,
what was sent is not repeated. A 401 carries `WWW-Authenticate`, a 405 `Allow`, a 503 `Retry-After`.

Use cases give finer codes than their class, such as `deploy_ended` for a conflict; the status is
that of the class.

| Status | Code | Class | Meaning |
|---|---|---|---|
"""


def render() -> str:
    """The page of all routes, as Markdown."""
    document = openapi.describe(_routes())
    parts = [_HEAD]
    for path, operations in sorted(document["paths"].items()):
        for method, operation in operations.items():
            parts.append("\n".join(_operation(document, f"{method.upper()} {path}", operation)))
    parts.append("\n".join(_objects(document)))
    return "\n".join(parts) + "\n"


def render_errors() -> str:
    """The page of all errors, as Markdown."""
    rows = [
        (status.code, kind.code, kind.__name__, _first_line(kind.__doc__))
        for kind, status in problem.STATUS.items()
        if kind is not errors.ManentError
    ]
    known = {code for _, code, *_ in rows}
    rows += [
        (status, code, "-", f"{problem.TITLES[status]}.")
        for status, code in problem.CODES.items()
        if code not in known
    ]
    lines = [f"| {s} | `{code}` | {name} | {doc} |" for s, code, name, doc in sorted(rows)]
    return _ERRORS_HEAD + "\n".join(lines) + "\n"


def render_openapi() -> str:
    """The OpenAPI document, as JSON."""
    return json.dumps(openapi.describe(_routes()), indent=1, sort_keys=True) + "\n"


def _routes() -> list[Any]:
    return [*probes.routes, *(route for router in ROUTERS for route in router.routes)]


def _operation(
    document: Mapping[str, Any], title: str, operation: Mapping[str, Any]
) -> Iterator[str]:
    yield f"### {title}\n"
    right = operation.get(RIGHT)
    yield f"{operation['description']} Right: {f'`{right}`' if right else 'none, public'}.\n"
    parameters = operation.get("parameters", [])
    if parameters:
        yield "| Parameter | In | Value | |"
        yield "|---|---|---|---|"
        for parameter in parameters:
            words = parameter.get("description", "")
            schema = _value(parameter["schema"])
            yield f"| `{parameter['name']}` | {parameter['in']} | {schema} | {words} |"
        yield ""
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        yield from _fields(document, schema)
    for status, response in sorted(operation["responses"].items()):
        answers = response.get("content", {}).get("application/json")
        if answers and answers["schema"]:
            yield f"Answers {status} with {_value(answers['schema'])}.\n"


def _objects(document: Mapping[str, Any]) -> Iterator[str]:
    yield "## Objects\n"
    for name, schema in sorted(document["components"]["schemas"].items()):
        if not name.endswith("Body") or name == "ProblemBody":
            yield f"### {name}\n"
            yield f"{schema.get('description', '')}\n"
            yield from _table(schema)


def _fields(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[str]:
    name = schema["$ref"].rsplit("/", 1)[-1]
    yield from _table(document["components"]["schemas"][name])


def _table(schema: Mapping[str, Any]) -> Iterator[str]:
    required = schema.get("required", ())
    yield "| Field | Value | |"
    yield "|---|---|---|"
    for name, field in schema.get("properties", {}).items():
        words = field.get("description", "")
        if name in required and "default" not in field:
            words = f"Required. {words}".strip()
        yield f"| `{name}` | {_value(field)} | {words} |"
    yield ""


def _value(schema: Mapping[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        kinds = [_value(kind) for kind in schema["anyOf"] if kind.get("type") != "null"]
        return " or ".join(kinds)
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_value(schema['items'])}" if schema.get("items") else "list"
    return _scalar(schema)


def _scalar(schema: Mapping[str, Any]) -> str:
    words = {"string": "text", "integer": "number", "boolean": "true or false", "object": "object"}
    kind = words.get(schema.get("type", ""), "any")
    if schema.get("format") == "date-time":
        return "instant"
    if schema.get("pattern") == PROSE:
        return "prose"
    if "pattern" in schema:
        return f"{kind}, `{schema['pattern'].replace('|', '&#124;')}`"
    low, high = schema.get("minimum"), schema.get("maximum")
    return f"{kind}, {int(low)} to {int(high)}" if low is not None and high is not None else kind


def _first_line(doc: str | None) -> str:
    return re.sub(r" \((\d{3}|exit \d+)\)\.$", ".", (doc or "").strip().splitlines()[0])


if __name__ == "__main__":
    (Path(sys.argv[1]) / "openapi.json").write_text(render_openapi())
    (Path(sys.argv[1]) / "errors.md").write_text(render_errors())
