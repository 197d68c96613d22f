"""The documented attributes are those of the schemas, and the reference says the same of each."""

from __future__ import annotations

import json

from flask import Flask

from app.markdown import without_links
from schemas.sends import SendSchema
from tests.support.cases import each
from tests.support.client import Client
from tools.attribute_pages import DOCS, PAGES, SCHEMAS, page


@each("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    """`make docs` brings the page up to date."""
    assert (DOCS / name).read_text("utf-8") == page(name)


def test_every_table_stands_on_a_page() -> None:
    pages = "".join(page(name) for name in PAGES)
    assert [name for name in SCHEMAS if f"<!-- attributes of {name} -->" not in pages] == []


def test_every_attribute_of_a_send_has_a_meaning() -> None:
    assert [name for name, field in SendSchema().fields.items() if "about" not in field.metadata] == []


def test_the_reference_says_the_same_without_links(app: Flask) -> None:
    described = json.loads(Client(app).get("/docs/openapi.json").text)["components"]["schemas"]
    for schema in SCHEMAS.values():
        properties = described[schema.__name__.removesuffix("Schema")]["properties"]
        for name, field in schema().fields.items():
            if "about" in field.metadata:
                meaning = properties[name]["description"]
                assert meaning == without_links(field.metadata["about"])
                assert "](" not in meaning
