"""Loading the suppressions of a batch of claimed recipients: one select."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Select, String, bindparam, literal_column, null, select, union_all
from sqlalchemy.orm import Session

from app.addresses import AccountAddress, all_forms
from app.db.address_digests import find_digests
from app.db.in_json import in_json, json_array
from app.db.models import BlockedAddress, Unsubscriber
from app.db.prepared import PreparedStatement
from app.sends.delivery.send_content import SendContent
from app.sends.delivery.suppression import Suppressions


def _parameter(name: str) -> BindParameter[Any]:
    return bindparam(name, type_=String)


def _suppressed(model: type[BlockedAddress | Unsubscriber], list_id: Any) -> Select[Any]:
    """Entries whose account and address both occur among the parameters, though not always as a pair."""
    table: ColumnElement[str] = literal_column(f"'{model.__tablename__}'").label("table_name")
    return select(table, model.account_id, model.kind, model.address, list_id.label("list_id")).where(
        in_json(model.account_id, _parameter("accounts")),
        in_json(model.kind, _parameter("kinds")),
        in_json(model.address, _parameter("addresses")),
    )


_UNSUBSCRIBED = _suppressed(Unsubscriber, Unsubscriber.list_id)
# Entries of a list and account-wide ones have an index each, which is used only if they are selected separately.
SUPPRESSIONS = PreparedStatement(
    union_all(
        _suppressed(BlockedAddress, null()),
        _UNSUBSCRIBED.where(Unsubscriber.list_id.is_not(None)),
        _UNSUBSCRIBED.where(Unsubscriber.list_id.is_(None)),
    )
)


def load_suppressions(
    session: Session, addresses: Iterable[AccountAddress | None], sends: Iterable[SendContent]
) -> Suppressions:
    """The suppressions of these addresses; one select."""
    looked_up = {address for address in addresses if address}
    digests = _digests(session, looked_up) if any(send.has_digests for send in sends) else {}
    parameters = {
        "accounts": json_array({address.account_id for address in looked_up}),
        "kinds": json_array({address.kind for address in looked_up}),
        "addresses": json_array({*all_forms(address.key for address in looked_up), *digests}),
    }
    blocked, unsubscribed = set(), set()
    for table, account_id, kind, key, list_id in SUPPRESSIONS.tuples(session, **parameters):
        address = AccountAddress.of(account_id, kind, digests.get(key, key))
        if table == BlockedAddress.__tablename__:
            blocked.add(address)
        else:
            unsubscribed.add((address, list_id))
    return Suppressions(frozenset(blocked), frozenset(unsubscribed))


def _digests(session: Session, addresses: Collection[AccountAddress]) -> dict[str, str]:
    """Digest -> address, as the tables store them. Those of one address are the same in all accounts."""
    return {digest: address.key for digest, address in find_digests(session, addresses).items()}
