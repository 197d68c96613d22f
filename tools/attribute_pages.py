"""Writes the tables of attributes in pages of docs/ from the schemas, in place: `python -m tools.attribute_pages`,
called by `make docs`."""

from __future__ import annotations

import re
from pathlib import Path

from marshmallow import Schema

from app.sends.accept.draft import EMAIL_ONLY
from schemas import management
from schemas.base import CodeSchema
from schemas.groups import GroupSchema
from schemas.recipients import RecipientTimelineSchema
from schemas.sends import SendSchema

DOCS = Path(__file__).parents[1] / "docs"
PAGES = ("sending.md", "endpoints.md", "management.md")
SCHEMAS: dict[str, type[Schema]] = {
    "a send": SendSchema,
    "a recipient": RecipientTimelineSchema,
    "a group": GroupSchema,
    "a managed list": management.ListCreateSchema,
    "a managed message": management.MessageCreateSchema,
    "a preview": management.MessagePreviewSchema,
    "a managed webhook": management.WebhookCreateSchema,
    "a managed domain": management.DomainCreateSchema,
    "a managed sender": management.SenderUpdateSchema,
    "a managed key": management.KeyCreateSchema,
}
TABLE = re.compile(r"(<!-- attributes of ([a-z ]+) -->\n).*?(<!-- end of attributes -->)", re.DOTALL)


def page(name: str) -> str:
    """The whole page, with its tables as the schemas say."""
    text = (DOCS / name).read_text("utf-8")
    return TABLE.sub(lambda match: match[1] + _table(SCHEMAS[match[2]]) + match[3], text)


def _table(schema: type[Schema]) -> str:
    meanings = {name: field.metadata["about"] for name, field in schema().fields.items() if "about" in field.metadata}
    if schema is not SendSchema:
        rows = (f"| `{name}` | {text} |\n" for name, text in meanings.items())
        kind = "attribute" if issubclass(schema, CodeSchema) else "property"
        return "".join((f"| {kind} | |\n| --- | --- |\n", *rows))
    rows = (f"| `{name}` | {'email' if name in EMAIL_ONLY else 'both'} | {text} |\n" for name, text in meanings.items())
    return "".join(("| attribute | for | |\n| --- | --- | --- |\n", *rows))


if __name__ == "__main__":
    for name in PAGES:
        (DOCS / name).write_text(page(name), "utf-8")
