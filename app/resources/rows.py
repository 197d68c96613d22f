"""Reading and changing the rows of a defined noun, for all doors (docs/code-layout.md#resource-definitions)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from app.db.database import Transaction
from app.db.lookup import find_by_name_or_id
from app.db.models import Account
from app.errors import ServiceError
from app.resources.definition import Attribute, Reference, ResourceDefinition, Values

Row = dict[str, Any]
"""Key of an attribute -> the value that everybody outside sees."""


def rows_of_account(
    session: Session, resource: ResourceDefinition, account_id: int, limit: int | None = None
) -> list[Row]:
    """The rows of the account, by the key: one statement."""
    statement = _statement(resource).where(resource.model.account_id == account_id).limit(limit)
    return _rows(session, resource, statement.order_by(_key(resource)))


def rows_of_installation(session: Session, resource: ResourceDefinition) -> list[Row]:
    """The rows of all accounts, by the account's name and the key; each begins with that name, as `account`."""
    with_account = _statement(resource).add_columns(Account.name).join(Account, Account.id == resource.model.account_id)
    rows = session.execute(with_account.order_by(Account.name, _key(resource))).all()
    attributes = resource.read_attributes
    return [{"account": values[-1], **_row(attributes, values[:-1])} for values in rows]


def row_of(session: Session, resource: ResourceDefinition, item: Any) -> Row:
    """The row of what was found or written in this session."""
    session.flush()
    (row,) = _rows(session, resource, _statement(resource).where(resource.model.id == item.id))
    return row


def item_at(session: Session, resource: ResourceDefinition, account_id: int, key: str) -> Any:
    """What the account has under that key, or None."""
    model = resource.model
    return session.scalars(select(model).where(model.account_id == account_id, _key(resource) == key)).first()


def find_item(session: Session, resource: ResourceDefinition, account_id: int, key: str) -> Any:
    """What the account has under that key. Raises `invalid_id`."""
    item = item_at(session, resource, account_id, key)
    if item is None:
        detail = f"the account has no {resource.noun} {key!r}"
        raise ServiceError("invalid_id", field=resource.key, detail=detail)
    return item


def create_item(transaction: Transaction, resource: ResourceDefinition, account_id: int, given: Values) -> Any:
    """Makes a row of the given attributes. Raises what the use case raises, and `invalid_id`."""
    return resource.create(transaction, account_id, _values(transaction, resource, account_id, given))


def update_item(transaction: Transaction, resource: ResourceDefinition, item: Any, given: Values) -> bool:
    """Changes the given attributes, without the fixed ones; returns whether any differed. Raises what the use case
    raises, and `invalid_id`."""
    fixed = {attribute.key for attribute in resource.input_attributes if attribute.is_fixed}
    changes = {key: value for key, value in given.items() if key not in fixed}
    return resource.update(item, _values(transaction, resource, item.account_id, changes))


def _values(transaction: Transaction, resource: ResourceDefinition, account_id: int, given: Values) -> Values:
    """The values for the use case: rows of other nouns by their ids."""
    values = dict(given)
    for attribute in resource.input_attributes:
        if isinstance(kind := attribute.kind, Reference) and attribute.key in values:
            name_or_id = values.pop(attribute.key)
            values[kind.id_key] = (
                None
                if name_or_id is None
                else find_by_name_or_id(transaction, kind.model, account_id, name_or_id, kind.noun).id
            )
    return values


def _key(resource: ResourceDefinition) -> Any:
    return getattr(resource.model, resource.key)


def _statement(resource: ResourceDefinition) -> Select[Any]:
    return select(*(attribute.column for attribute in resource.read_attributes)).select_from(resource.source)


def _rows(session: Session, resource: ResourceDefinition, statement: Select[Any]) -> list[Row]:
    attributes = resource.read_attributes
    return [_row(attributes, values) for values in session.execute(statement)]


def _row(attributes: Sequence[Attribute], values: Any) -> Row:
    return {attribute.key: attribute.format_value(value) for attribute, value in zip(attributes, values, strict=True)}
