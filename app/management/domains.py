"""Sending domains, as programs set them up (docs/management.md#domains)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.domain_hosts import HOST_PURPOSES, set_hosts
from app.accounts.domains import add_domain_without_keys, delete_domain
from app.accounts.signing_keys import import_key, make_missing_keys, rotate_keys
from app.db.database import Transaction
from app.db.models import Domain
from app.errors import ServiceError
from app.maintenance.sending_domains import domain_rows
from app.management.noun import CreatedRow, Details, Item, ManagedNoun, Manager, Values, shape_of
from app.network_checks.ask import ask, objects_under_way
from app.query.fields import FilterType
from app.query.reader import Property, as_timestamp

RECORD_ATTRIBUTES = ("purpose", "name", "type", "value", "state")
KEY_TIMES = ("creation_time", "retired_time")
PROPERTIES = {
    "id": Property(Domain.id),
    "name": Property(Domain.name),
    "verified": Property(Domain.verified_time.is_not(None)),
    "trusted": Property(Domain.trusted),
    "verified_time": Property(Domain.verified_time, as_timestamp),
    "checked_time": Property(Domain.checked_time, as_timestamp),
    # Replaced by what was read of them.
    "is_checked": Property(Domain.id),
    "tracking_host": Property(Domain.tracking_host),
    "return_path_host": Property(Domain.return_path_host),
    "records": Property(Domain.id),
    "keys": Property(Domain.id),
    "creation_time": Property(Domain.creation_time, as_timestamp),
}
FILTERS = {
    "id": FilterType.INTEGER,
    "name": FilterType.STRING,
    "verified": FilterType.BOOLEAN,
    "creation_time": FilterType.TIMESTAMP,
}


def _records_and_keys(
    session: Session, manager: Manager, domain_ids: Sequence[int], zone: ZoneInfo | None
) -> Mapping[int, Item]:
    """The records to publish for each domain, with what the last check has found, and its keys without what signs."""
    statement = select(Domain).where(Domain.account_id == manager.account_id, Domain.id.in_(domain_ids))
    rows = domain_rows(session, manager.services.settings, session.scalars(statement).all())
    return {
        row["id"]: {
            "records": [_record(record) for record in row["records"]],
            "keys": [{**key, **{name: as_timestamp(key[name], zone) for name in KEY_TIMES}} for key in row["keys"]],
        }
        for row in rows
    }


def _record(record: Mapping[str, Any]) -> Item:
    """A record with the texts that the last check has found in its place, as `published`."""
    return {name: record[name] for name in RECORD_ATTRIBUTES} | {"published": record["found"]}


def _checks(
    session: Session, manager: Manager, domain_ids: Sequence[int], _zone: ZoneInfo | None
) -> Mapping[int, Item]:
    """Whether the records of each domain are being looked up."""
    under_way = objects_under_way(session, "domain", [manager.account_id])
    return {domain_id: {"is_checked": domain_id in under_way} for domain_id in domain_ids}


def create(transaction: Transaction, manager: Manager, values: Values) -> CreatedRow:
    """Adds a domain with its keys, those of the body among them, and its hosts. Raises `conflict` if the account has
    the domain, and what `import_key`, `make_missing_keys` and `set_hosts` raise."""
    try:
        row, is_new = add_domain_without_keys(transaction, manager.account_id, values["name"], trusted=False)
    except ServiceError as error:
        raise ServiceError(error.code, field="name", detail=error.errors[0].detail) from None
    if not is_new:
        raise ServiceError("conflict", field="name", detail=f"The account already has the domain {row.name}.")
    _import_keys(transaction, manager, row, values)
    make_missing_keys(transaction, row, manager.services.settings.secret_key, values.get("selector"))
    _set_hosts(transaction, row, values)
    return CreatedRow(row, {})


def update(transaction: Transaction, manager: Manager, row: Domain, values: Values) -> None:
    """Sets the hosts of a domain, and adds keys. Raises what `import_key` and `set_hosts` raise."""
    _import_keys(transaction, manager, row, values)
    _set_hosts(transaction, row, values)


def _import_keys(transaction: Transaction, manager: Manager, row: Domain, values: Values) -> None:
    secret_key = manager.services.settings.secret_key
    for index, key in enumerate(values.get("keys", [])):
        try:
            import_key(transaction, row, secret_key, key["selector"], key["private_key"])
        except ServiceError as error:
            raise error.within("keys", index) from None


def _set_hosts(transaction: Transaction, row: Domain, values: Values) -> None:
    hosts = {name: values[name] for name in HOST_PURPOSES if name in values}
    if hosts:
        set_hosts(transaction, row, hosts, by_operator=False)


def delete(transaction: Transaction, manager: Manager, row: Domain) -> None:
    """Deletes a domain with its keys."""
    delete_domain(transaction, manager.account_id, row.name)


def check(transaction: Transaction, manager: Manager, row: Domain, _values: Values) -> None:
    """Has a worker look up the records of a domain, which waits for name servers. Raises `conflict` for an account with
    too many checks under way."""
    ask(transaction, manager.services, "domain", row.account_id, row.id)


def rotate(transaction: Transaction, manager: Manager, row: Domain, values: Values) -> None:
    """Makes new keys for a domain beside those that sign: they sign once a check finds their records. Raises what
    `rotate_keys` raises."""
    rotate_keys(transaction, row, manager.services.settings.secret_key, values.get("selector"))


SHAPE = shape_of(Domain, "domain", "domains", PROPERTIES, FILTERS)
DOMAINS = ManagedNoun(
    model=Domain,
    shape=SHAPE,
    whole=SHAPE,
    details=(Details(("records", "keys"), _records_and_keys), Details(("is_checked",), _checks)),
    create=create,
    most=500,
    update=update,
    delete=delete,
)
