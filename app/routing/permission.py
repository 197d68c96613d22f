"""Which transports the sends of an account may name (docs/sending.md#choosing-a-transport)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, exists, or_, select

from app.db.models import Transport, TransportAccount


def allowed_transport(account_id: int, name: str, type_: str) -> Select[Any]:
    """Selects the transport of that name if the operator lets the account name it, for messages of that type. A
    disabled one is found, too: messages wait for it."""
    is_allowed = exists().where(
        TransportAccount.transport_id == Transport.id, TransportAccount.account_id == account_id
    )
    return select(Transport.id).where(
        Transport.name == name, Transport.type == type_, or_(Transport.any_account, is_allowed)
    )
