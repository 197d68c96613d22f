"""`flask lists index-field` and related commands (docs/querying.md#what-an-index-answers)."""

from __future__ import annotations

import pytest

from app.db import field_indexes
from app.db.field_indexes import FieldIndex
from tests.cli.conftest import Cli
from tests.support.tenants import Tenant


def test_an_index_is_made_shown_and_dropped(bare: Cli, cli: Cli, tenant: Tenant, customers: int) -> None:
    name = "ix_contacts_field_number_score"
    made = cli.json("lists", "index-field", "Customers", "score")
    assert made == {"name": name, "key": "score", "kind": "number", "created": True}
    assert cli.text("lists", "index-field", "Customers", "score") == f"there is already the index {name}\n"
    cli.json("lists", "add-field", "Customers", "Renewal", "Date of Birth", "--index")
    names = ["ix_contacts_field_date_renewal", name]
    assert bare.json("lists", "indexes") == [{"name": name} for name in names]
    people: list[dict[str, float]] = [{"score": 5}, {"score": 7.5}, {"score": -1}, {}]
    ids = [tenant.new_contact(customers, **fields)["id"] for fields in people]
    contacts = cli.json("contacts", "list", "score:in=5..", "--list", "Customers")
    assert [contact["id"] for contact in contacts] == [ids[1]]
    for index_name in names:
        assert bare.text("lists", "drop-index", index_name) == f"dropped the index {index_name}\n"
    assert bare.json("lists", "indexes") == []


@pytest.mark.usefixtures("customers")
def test_what_cannot_be_indexed_is_refused(bare: Cli, cli: Cli) -> None:
    assert (
        cli.refused("lists", "index-field", "Customers", "nothing") == "key: the list has no field with the key nothing"
    )
    refused = cli.refused("lists", "index-field", "Customers", "plan")
    assert refused == "type: a field of the type Dropdown has no ranges, so it needs no index"
    refused = cli.refused("lists", "add-field", "Customers", "Note", "Text Field", "--index")
    assert refused == "type: a field of the type Text Field has no ranges, so it needs no index"
    assert "note" not in [field["key"] for field in cli.json("lists", "show", "Customers")["fields"]]
    assert bare.refused("lists", "drop-index", "ix_contacts_page") == (
        "name: there is no index ix_contacts_page on a list field"
    )


def test_a_value_of_another_type_under_the_key_of_an_index_can_be_written(cli: Cli, tenant: Tenant) -> None:
    """The index serves all lists: another one may have a long text, or a word, under the same key."""
    database_url = tenant.services.settings.database_url
    indexes = [FieldIndex("size", "number"), FieldIndex("size", "date")]
    for index in indexes:
        assert field_indexes.create_index(database_url, index)
    try:
        list_id = tenant.add_list(fields=(("Email", "Email"), ("Size", "Text Field")))
        sizes = ["large", "1970-01-01 " + "".join(chr(0x100 + number) for number in range(5000)), "12"]
        for size in sizes:
            assert tenant.new_contact(list_id, size=size)["size"] == size
    finally:
        for index in indexes:
            field_indexes.drop_index(database_url, index.name)


def test_there_are_no_more_indexes_than_writes_can_bear(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_indexes, "MAX_INDEXES", 1)
    database_url = tenant.services.settings.database_url
    first = FieldIndex("points", "number")
    field_indexes.create_index(database_url, first)
    try:
        with pytest.raises(field_indexes.TooManyIndexes):
            field_indexes.create_index(database_url, FieldIndex("other", "number"))
        assert field_indexes.index_names(database_url) == [first.name]
    finally:
        field_indexes.drop_index(database_url, first.name)


def test_long_keys_have_short_names() -> None:
    names = {FieldIndex("k" * length, "number").name for length in (100, 101)}
    assert len(names) == 2
    assert {len(name) for name in names} == {field_indexes.MAX_NAME_LENGTH}
