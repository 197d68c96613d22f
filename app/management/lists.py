"""Lists with their fields, as programs set them up (docs/management.md#lists)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.contacts.counts import check_size, number_of_contacts
from app.contacts.delete import delete_list
from app.db.database import Transaction
from app.db.models import List, ListField
from app.errors import ServiceError
from app.lists.define import apply_fields, create_list, fields_of, update_list
from app.lists.fields import ADDRESS_KEYS
from app.lists.find import get_list
from app.lists.paths import contacts_path
from app.management.noun import CreatedRow, Details, Item, ManagedNoun, Manager, Values, shape_of
from app.query.fields import FilterType
from app.query.parameters import parameter_error, printable
from app.query.reader import Property, as_timestamp

CONFIRMATION = "contacts"
"""The value of `confirm` with which a list is deleted though it has contacts."""
PROPERTIES = {
    "id": Property(List.id),
    "name": Property(List.name),
    "system": Property(List.system),
    "allow_duplicates": Property(List.allow_duplicates),
    "stop_words": Property(List.stop_words),
    "offered": Property(List.offered),
    "offered_name": Property(List.offered_name),
    "offered_description": Property(List.offered_description),
    # Replaced by the rows of the fields.
    "fields": Property(List.id),
    "creation_time": Property(List.creation_time, as_timestamp),
    "last_modified_time": Property(List.last_modified_time, as_timestamp),
}
FILTERS = {
    "id": FilterType.INTEGER,
    "name": FilterType.STRING,
    "system": FilterType.BOOLEAN,
    "offered": FilterType.BOOLEAN,
    "creation_time": FilterType.TIMESTAMP,
    "last_modified_time": FilterType.TIMESTAMP,
}


def _links(row: Any) -> Item:
    return {"contacts": {"href": contacts_path(row.id)}}


def _fields(session: Session, manager: Manager, list_ids: Sequence[int], _zone: ZoneInfo | None) -> Mapping[int, Item]:
    """The fields of each list in their order."""
    fields_by_list: dict[int, list[Item]] = {list_id: [] for list_id in list_ids}
    statement = select(ListField).where(ListField.account_id == manager.account_id, ListField.list_id.in_(list_ids))
    for field in session.scalars(statement.order_by(ListField.position, ListField.id)):
        item = {"id": field.id, "name": field.name, "key": field.key, "type": field.type, "options": field.options}
        fields_by_list[field.list_id].append(item)
    return {list_id: {"fields": fields} for list_id, fields in fields_by_list.items()}


def create(transaction: Transaction, manager: Manager, values: Values) -> CreatedRow:
    """Creates a list with its fields. Raises what `create_list` and `apply_fields` raise."""
    row = create_list(transaction, manager.account_id, _attributes(values))
    apply_fields(transaction, row, values.get("fields", []))
    return CreatedRow(row, {})


def update(transaction: Transaction, _manager: Manager, row: List, values: Values) -> None:
    """Changes a list. Fields that the body names by a name that the list has are changed, the others are added. Raises
    what `update_list` and `apply_fields` raise, and `conflict` for a list that is too large."""
    fields = values.get("fields", [])
    if values.get("allow_duplicates", row.allow_duplicates) != row.allow_duplicates:
        check_size(transaction, row.id, "lists update")
    present = {field.name for field in fields_of(transaction, row)} if fields else set()
    if any(field["type"] in ADDRESS_KEYS and field["name"] not in present for field in fields):
        check_size(transaction, row.id, "lists add-field")
    update_list(transaction, row, _attributes(values))
    apply_fields(transaction, row, fields)


def _attributes(values: Values) -> Values:
    return {name: value for name, value in values.items() if name != "fields"}


def delete(transaction: Transaction, manager: Manager, row: List, *, confirm: str | None = None) -> None:
    """Deletes a list with its contacts, which `confirm` must name if there are some. Raises `conflict` without it, and
    for a list that is too large."""
    contacts = number_of_contacts(transaction, row.id)
    if contacts and confirm is None:
        words = "1 contact, which is" if contacts == 1 else f"{contacts:,} contacts, which are"
        detail = f"The list has {words} deleted with it. Add confirm={CONFIRMATION} to the query."
        raise ServiceError("conflict", field="confirm", detail=detail)
    check_size(transaction, row.id, "lists delete")
    delete_list(transaction, get_list(transaction, manager.account_id, row.id))


def parse_confirmation(value: str) -> str:
    """The value of `confirm`. Raises `invalid_query_syntax` for another one than `CONFIRMATION`."""
    if value != CONFIRMATION:
        detail = f"confirm: {printable(value)!r} is not {CONFIRMATION}."
        raise parameter_error("invalid_query_syntax", "confirm", detail)
    return value


SHAPE = shape_of(List, "list", "lists", PROPERTIES, FILTERS, links=_links)
LISTS = ManagedNoun(
    model=List,
    shape=SHAPE,
    whole=SHAPE,
    details=(Details(("fields",), _fields),),
    create=create,
    most=1_000,
    update=update,
    delete=delete,
    delete_parameters={"confirm": parse_confirmation},
)
