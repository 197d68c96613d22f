"""The secret values of claimed recipients: decrypting them, and masking them (docs/sending.md#secret-values)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import String, bindparam, select
from sqlalchemy.orm import Session

from app.db.in_json import in_json, json_array
from app.db.models import QueueEntry
from app.db.prepared import PreparedStatement
from app.infrastructure.secrets import SecretUnreadable
from app.recipients.reasons import FailReason
from app.secret_keys import SecretKeys
from app.sends.delivery.claim import ClaimedRecipient
from app.sends.delivery.compose import PreparedRecipient
from app.sends.secret_values import SecretValues
from app.settings import Settings

STORED = PreparedStatement(
    select(QueueEntry.recipient_id, QueueEntry.secret_values).where(
        in_json(QueueEntry.recipient_id, bindparam("ids", type_=String))
    )
)


def with_secret_values(
    session: Session, settings: Settings, claimed: Sequence[ClaimedRecipient]
) -> list[ClaimedRecipient]:
    """The recipients, in their order, with all their values; one select, and none if no value is secret. One whose
    secret values cannot be read fails with that reason."""
    ids = [row.id for row in claimed if None in row.values.values()]
    if not ids:
        return list(claimed)
    stored, keys = dict(STORED.tuples(session, ids=json_array(ids))), settings.secret_keys
    return [_decrypted(keys, row, stored.get(row.id)) if None in row.values.values() else row for row in claimed]


def _decrypted(secret_keys: SecretKeys, claimed: ClaimedRecipient, stored: str | None) -> ClaimedRecipient:
    names = [name for name, value in claimed.values.items() if value is None]
    try:
        if stored is None:
            raise SecretUnreadable("there are none")
        secrets = SecretValues.decrypted(secret_keys, claimed.uuid, stored, names)
    except SecretUnreadable:
        return claimed._replace(reason=FailReason.UNREADABLE_VALUES)
    return claimed._replace(values={**claimed.values, **secrets.values}, secrets=secrets)


def masked(recipient: PreparedRecipient) -> PreparedRecipient:
    """The recipient with a mask in place of each secret value; the same object if it has none."""
    claimed = recipient.claimed
    if claimed.secrets is None:
        return recipient
    return replace(recipient, claimed=claimed._replace(values={**claimed.values, **claimed.secrets.masked}))
