"""Which transports the sends of an account may name (docs/sending.md#choosing-a-transport)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, exists, or_, select

from app.db.models import Account, Transport, TransportAccount


def allowed_transport(account_id: int, name: str, type_: str) -> Select[Any]:
    """Selects the transport of that name if the operator lets the account name it, for messages of that type. A
    disabled one is found, too: messages wait for it. A test account may name those of its account."""
    test_of = select(Account.test_of).where(Account.id == account_id).scalar_subquery()
    is_allowed = exists().where(
        TransportAccount.transport_id == Transport.id,
        or_(TransportAccount.account_id == account_id, TransportAccount.account_id == test_of),
    )
    return select(Transport.id).where(
        Transport.name == name, Transport.type == type_, or_(Transport.any_account, is_allowed)
    )
