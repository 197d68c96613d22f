"""The documented attributes of a send are those of the schema, and the reference describes each."""

from __future__ import annotations

import json

from flask import Flask

from app.markdown import without_links
from schemas.sends import SendSchema
from tests.support.client import Client
from tools.sending_page import PAGE, page


def test_the_page_is_up_to_date() -> None:
    """`make docs` brings the page up to date."""
    assert PAGE.read_text("utf-8") == page()


def test_the_reference_describes_every_attribute_without_links(app: Flask) -> None:
    schemas = json.loads(Client(app).get("/docs/openapi.json").text)["components"]["schemas"]
    described = {name: attribute.get("description") for name, attribute in schemas["Send"]["properties"].items()}
    meanings = {name: without_links(field.metadata["about"]) for name, field in SendSchema().fields.items()}
    assert described == meanings
    assert [meaning for meaning in meanings.values() if "](" in meaning] == []
