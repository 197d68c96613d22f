"""Writes docs/errors.md from the catalogue: `python -m app.generated_docs.errors`, called by `make docs`."""

from __future__ import annotations

from collections.abc import Mapping

from app.error_help import HELP
from app.errors import CONTACTS, FILTER, MAX_LISTED_ERRORS, SCHEMA, SENDS, TYPE_LEVEL, Code

HEAD = f"""\
# Errors

The body of a response with an error status:

```json
{{
  "id": "9f1c6c0b8f0e4a35a3f0d0c1c5a7e0b2",
  "method": "POST",
  "status": 422,
  "type": "validation_error",
  "code": "invalid_email_address",
  "message": "Please check the details you entered.",
  "developer_message": "email must be an email address of at most 254 characters, such as ann@example.com.",
  "field": "email",
  "collection": "contacts",
  "index": 3,
  "timestamp": "2026-01-31T10:00:00Z",
  "_links": {{
    "self": {{"href": "/v1/lists/7/contacts"}},
    "error": {{"href": "/docs/errors/validation_error#invalid_email_address"}}
  }}
}}
```

- `code` names the error and `type` its family; if nothing more specific applies, `code` repeats `type`.
- `message` may be shown to an end user, `developer_message` is for you.
- `field` is the query parameter or the attribute, with dots where it is nested (`subscribed.email`,
  `attachments.0.name`). `collection` and `index`, from 0, name the element of an array. Each is present only where it
  applies.
- `id` is also in the header `X-Request-Id` and in the service's log.
- When a request has several errors, the body is about the first and `_embedded.errors` lists them, up to
  {MAX_LISTED_ERRORS}: first errors of present attributes, in document order, then missing attributes.
- A `conflict` with an existing row has `fields`: attribute to what has its value, as in
  `{{"email": {{"contact_id": 12}}}}`.
- 429 and 503 carry `Retry-After` in seconds. After a 503 nothing has been written.
- When a request fails several checks, the first in the [order of checks](requests.md#order-of-checks) is reported.

This page is generated from `app/error_help.py` by `make docs`. A running service shows the same at `/docs/errors`, with
the commands as its installation has them.
"""

SECTIONS: dict[str, Mapping[str, Code]] = {
    "Types": TYPE_LEVEL,
    "Values of a body": SCHEMA,
    "Queries": FILTER,
    "Contacts": CONTACTS,
    "Sends": SENDS,
}


def page() -> str:
    """The whole page."""
    return HEAD + "".join(_section(title, codes) for title, codes in SECTIONS.items())


def _section(title: str, codes: Mapping[str, Code]) -> str:
    head = (
        "| code | status | type | what it means, and its usual cause | what to do |\n| --- | --- | --- | --- | --- |\n"
    )
    return f"\n## {title}\n\n{head}" + "".join(map(_row, codes.values()))


def _row(code: Code) -> str:
    meaning, cause, remedy = HELP[code.code]
    return f"| `{code.code}` | {code.status} | `{code.type}` | {meaning} **Usual cause:** {cause} | {remedy} |\n"


if __name__ == "__main__":
    print(page(), end="")
