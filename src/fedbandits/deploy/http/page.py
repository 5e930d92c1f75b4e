"""The interface as a page to read: made from the OpenAPI schema, without scripts and without anything from elsewhere.

FastAPI's own pages load their scripts from a public network; a page into which a token may be typed should not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import jinja2

HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "X-Frame-Options": "DENY"}
_TEMPLATE = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string("""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{ info.title }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem; }
pre { background: #8881; padding: .8rem; overflow-x: auto; font-size: .85rem; }
code { font-size: .9rem; } h2 { margin-top: 2.2rem; } h2 code { font-size: 1.25rem; }
td, th { text-align: left; vertical-align: top; padding: .1rem 1rem .1rem 0; }
:root { color-scheme: light dark; }
</style>
<h1>{{ info.title }} <small>{{ info.version }}</small></h1>
<p>{{ info.description }}</p>
<p>For programs: <a href="openapi.json">openapi.json</a></p>
{% for operation in operations %}
<h2 id="{{ operation.id }}"><code>{{ operation.method }} {{ operation.path }}</code></h2>
<p>{{ operation.description }}{% if not operation.secured %} Needs no token.{% endif %}</p>
{% for name in operation.takes %}<p>Takes <a href="#schema-{{ name }}">{{ name }}</a>.</p>{% endfor %}
<table>
{% for status, meaning, answers in operation.responses %}
<tr><td>{{ status }}</td><td>{{ meaning }}</td>
<td>{% for name in answers %}<a href="#schema-{{ name }}">{{ name }}</a> {% endfor %}</td></tr>
{% endfor %}
</table>
{% endfor %}
<h1>Schemas</h1>
{% for name, schema in schemas %}
<h2 id="schema-{{ name }}">{{ name }}</h2>
<pre>{{ schema }}</pre>
{% endfor %}
</html>
""")


def reference_page(schema: Mapping[str, Any]) -> str:
    """The OpenAPI `schema` as HTML."""
    operations = [
        {
            "id": operation["operationId"],
            "method": method.upper(),
            "path": path,
            "description": operation["description"],
            "secured": "security" in operation,
            "takes": list(_names(operation.get("requestBody", {}))),
            "responses": [
                (status, response["description"], list(_names(response)))
                for status, response in sorted(operation["responses"].items())
            ],
        }
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = [(name, json.dumps(item, indent=2)) for name, item in schema["components"]["schemas"].items()]
    return _TEMPLATE.render(info=schema["info"], operations=operations, schemas=schemas)


def _names(part: Any) -> Iterator[str]:
    """The schemas that a part of an OpenAPI document refers to."""
    if isinstance(part, Mapping):
        if isinstance(reference := part.get("$ref"), str):
            yield reference.rpartition("/")[2]
        for inner in part.values():
            yield from _names(inner)
    elif isinstance(part, list):
        for inner in part:
            yield from _names(inner)
