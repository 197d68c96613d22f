"""Every door knows every attribute of a defined noun (docs/code-layout.md#resource-definitions)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from flask import Flask, render_template_string
from sqlalchemy import inspect

from app.accounts import attributes as accounts
from app.cli import DEFINED_NOUNS, group_of
from app.lists import attributes as lists
from app.plain_data import Record
from app.resources.definition import Attribute, Reference, ResourceDefinition, given_attributes
from app.seed.nouns import ACCOUNT, LIST, RESOURCES, SENDER_ATTRIBUTES
from tests.support.cases import each
from tools.generated_docs.seed import PAGE, page

ROOT = Path(__file__).parents[2]
DEFINITIONS: list[ResourceDefinition] = [
    import_module(f"app.{path.parent.name}.resource").RESOURCE
    for path in sorted((ROOT / "app").glob("*/resource.py"))
    if path.parent.name not in ("cli", "seed")
]
FIELDS = """
{% import "console/resource.html" as resource with context %}
{% for attribute in attributes %}{{ resource.field(attribute) }}{% endfor %}
"""
FORM = """
{% import "console/resource.html" as resource with context %}{{ resource.form_of(of) }}
"""


def test_every_definition_has_its_doors() -> None:
    assert [definition.plural for definition in DEFINITIONS] == list(DEFINED_NOUNS)
    assert list(RESOURCES) == DEFINITIONS


def test_the_page_of_seed_files_is_up_to_date() -> None:
    """`make docs` brings the page up to date."""
    assert PAGE.read_text("utf-8") == page()


@each("resource", DEFINITIONS)
def test_every_column_is_an_attribute(resource: ResourceDefinition) -> None:
    columns = {column.key for column in inspect(resource.model).column_attrs} - {"account_id"}
    attributes = {attribute.key for attribute in resource.read_attributes} | {
        attribute.kind.id_key for attribute in resource.input_attributes if isinstance(attribute.kind, Reference)
    }
    assert columns - attributes == set()


@each("resource", DEFINITIONS)
def test_every_attribute_is_read_or_given_and_says_what_it_means(resource: ResourceDefinition) -> None:
    assert [
        attribute.key
        for attribute in resource.attributes
        if attribute not in (*resource.read_attributes, *resource.input_attributes)
    ] == []
    assert [
        attribute.key
        for attribute in resource.input_attributes
        if not attribute.meaning or attribute.meaning.endswith(".")
    ] == []


@each("resource", DEFINITIONS)
def test_every_given_attribute_is_an_option_of_the_commands(resource: ResourceDefinition) -> None:
    commands = group_of(resource.plural).commands
    given = {attribute.key for attribute in resource.input_attributes}
    assert {parameter.name for parameter in commands["create"].params} == {*given, "account", "as_json"}
    fixed = {attribute.key for attribute in resource.input_attributes if attribute.is_fixed} | {resource.key}
    assert {parameter.name for parameter in commands["update"].params} == {
        *given - fixed,
        "named",
        "account",
        "as_json",
    }


@each("resource", DEFINITIONS)
def test_every_given_attribute_is_a_field_of_the_form(resource: ResourceDefinition, app: Flask) -> None:
    with app.test_request_context():
        form = render_template_string(FORM, of=resource, form={}, account=None, link=lambda path, *_: path)
    assert [attribute.key for attribute in resource.input_attributes if f'name="{attribute.key}"' not in form] == []


@each("resource", DEFINITIONS)
def test_every_given_attribute_is_a_key_of_seed_files(resource: ResourceDefinition) -> None:
    record = resource.record
    assert [*record.required, *record.optional] == [
        *(attribute.key for attribute in resource.input_attributes if attribute.is_required),
        *(attribute.key for attribute in resource.input_attributes if not attribute.is_required),
    ]


LISTED: dict[str, tuple[Sequence[Attribute], Record, set[str]]] = {
    "accounts": (accounts.ATTRIBUTES, ACCOUNT, {"has_digests"}),
    "lists": (lists.ATTRIBUTES, LIST, {"account_id", "copy_of", "has_automations"}),
}
"""Noun -> its attributes, the check of an entry of a seed file, and the columns that nobody outside sees."""


@each("noun", LISTED)
def test_every_listed_attribute_is_known_to_every_door(noun: str, app: Flask) -> None:
    attributes, record, hidden = LISTED[noun]
    columns = {column.key for column in inspect(attributes[0].column.class_).column_attrs}
    assert columns - hidden == {attribute.key for attribute in attributes}
    keys = {attribute.key for attribute in given_attributes(attributes)}
    for name in ("create", "update"):
        assert keys - {parameter.name for parameter in group_of(noun).commands[name].params} == set()
    in_file = keys - SENDER_ATTRIBUTES  # `default_from` has these
    assert in_file - {*record.required, *record.optional} == set()
    seed_page = PAGE.read_text("utf-8")
    assert [key for key in in_file if f"`{key}`" not in seed_page] == []
    with app.test_request_context():
        form = render_template_string(FIELDS, attributes=given_attributes(attributes), form={})
    assert [key for key in keys if f'name="{key}"' not in form] == []
