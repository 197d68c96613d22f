"""Keys of the API up to the level standard, as programs set them up (docs/management.md#keys)."""

from __future__ import annotations

from datetime import timedelta

from app.accounts.auth import MANAGER, SCOPES
from app.accounts.keys import revoke_key, rotate_key
from app.accounts.testing import create_key
from app.db.database import Transaction
from app.db.models import Account, ApiKey
from app.db.models.base import apply_changes
from app.management.noun import CreatedRow, ManagedNoun, Manager, Values, is_of_test_account, list_ids, shape_of
from app.query.fields import FilterType
from app.query.reader import Property, as_timestamp

LEVELS = tuple(level for level in SCOPES if level != MANAGER)
"""The access levels of the keys that a manager's key makes, reads and changes."""
DEFAULT_OVERLAP_HOURS = 7 * 24
PROPERTIES = {
    "id": Property(ApiKey.id),
    "name": Property(ApiKey.name),
    "access_level": Property(ApiKey.access_level),
    "list_id": Property(ApiKey.list_id),
    "test": Property(is_of_test_account(ApiKey)),
    "begins_with": Property(ApiKey.token_hint),
    "creation_time": Property(ApiKey.creation_time, as_timestamp),
    "last_used_time": Property(ApiKey.last_used_time, as_timestamp),
    "valid_until": Property(ApiKey.valid_until, as_timestamp),
    "expiry_time": Property(ApiKey.expiry_time, as_timestamp),
    "revoked_time": Property(ApiKey.revoked_time, as_timestamp),
}
FILTERS = {
    "id": FilterType.INTEGER,
    "name": FilterType.STRING,
    "access_level": FilterType.ENUM,
    "test": FilterType.BOOLEAN,
    "creation_time": FilterType.TIMESTAMP,
    "last_used_time": FilterType.TIMESTAMP,
    "revoked_time": FilterType.TIMESTAMP,
}


def create(transaction: Transaction, manager: Manager, values: Values) -> CreatedRow:
    """Issues a key, whose token is shown once. Raises `conflict` for a taken name, and `invalid_id` for another
    account's list."""
    account = transaction.get_one(Account, manager.account_id)
    row, token = create_key(
        transaction, account, values["name"], values["access_level"], is_test=values.get("test", False)
    )
    _change(transaction, row, {name: values[name] for name in ("list_id", "expiry_time") if name in values})
    return CreatedRow(row, {"token": token})


def update(transaction: Transaction, _manager: Manager, row: ApiKey, values: Values) -> None:
    """Changes the level, the list or the expiry date of a key. Raises `invalid_id` for another account's list."""
    _change(transaction, row, values)


def _change(transaction: Transaction, row: ApiKey, values: Values) -> None:
    if values.get("list_id") is not None:
        list_ids(transaction, row.account_id, [values["list_id"]], "list_id")
    apply_changes(row, values)


def delete(transaction: Transaction, _manager: Manager, row: ApiKey) -> None:
    """Revokes a key with its former secrets. Its row stays, so that logs can name it."""
    revoke_key(transaction, row)


def rotate(transaction: Transaction, _manager: Manager, row: ApiKey, values: Values) -> CreatedRow:
    """Gives the name of a key to a new one, whose token is shown once; the old secret works for as many hours as
    `overlap_hours`. Raises `conflict` for a key that is revoked, or that is a former secret itself."""
    overlap = timedelta(hours=values.get("overlap_hours", DEFAULT_OVERLAP_HOURS))
    made, token, end = rotate_key(transaction, row, overlap)
    return CreatedRow(made, {"token": token, "former_key": {"id": row.id, "name": row.name, "valid_until": end}})


SHAPE = shape_of(ApiKey, "key", "keys", PROPERTIES, FILTERS, options={"access_level": LEVELS})
KEYS = ManagedNoun(
    model=ApiKey,
    shape=SHAPE,
    whole=SHAPE,
    create=create,
    most=10_000,
    update=update,
    delete=delete,
    has_tests=True,
    is_managed=(ApiKey.access_level.in_(LEVELS),),
    shows_secrets=True,
)
