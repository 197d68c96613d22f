"""The keys of an account with those of its test account (docs/console-contents.md#keys-of-the-api)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import String, cast, func, or_, select
from sqlalchemy.orm import Session

from app.clock import now
from app.db.models import Account, ApiKey, List
from app.errors import ServiceError

PATH = "/console/keys"
MAX_KEYS = 200
"""Keys that the page shows, the newest first."""
OVERLAPS = {
    **{"0": "now", "1": "after one hour", "24": "after one day"},
    **{"168": "after seven days", "720": "after thirty days"},
}
"""Hours for which an old token goes on working -> when it ends, in words."""


@dataclass(frozen=True, slots=True)
class KeyState:
    """A key, whether it is one of the test account, and the name of its list for mails that are sent by SMTP."""

    key: ApiKey
    is_test: bool
    list_name: str | None

    @property
    def path(self) -> str:
        """The path of the actions on the key."""
        return f"{PATH}/{self.key.id}"

    @property
    def end_time(self) -> datetime | None:
        """When the overlap of a former token ends."""
        return self.key.valid_until

    @property
    def state(self) -> str:
        """The state of the key, in one word."""
        if self.key.revoked_time is not None:
            return "revoked"
        if self.key.expiry_time is not None or (self.end_time is not None and self.end_time <= now()):
            return "ended"
        return "overlapping" if self.end_time is not None else "valid"

    @property
    def may_be_rotated(self) -> bool:
        """Whether the key has no successor yet."""
        return self.state == "valid" and self.key.former_name is None


def key_states(session: Session, account: Account) -> Sequence[KeyState]:
    """The keys of the account and of its test account: one statement."""
    owned = select(ApiKey, Account.test_of, func.coalesce(List.name, cast(List.id, String)))
    owned = owned.join(Account, Account.id == ApiKey.account_id).outerjoin(List, List.id == ApiKey.list_id)
    keys = owned.where(or_(Account.id == account.id, Account.test_of == account.id))
    rows = session.execute(keys.order_by(ApiKey.id.desc()).limit(MAX_KEYS))
    return [KeyState(key, test_of is not None, list_name) for key, test_of, list_name in rows]


def find_key(session: Session, account_id: int | None, key_id: int) -> ApiKey:
    """The key with that id of the account or of its test account, or of any for None. Raises `not_found`."""
    statement = select(ApiKey).join(Account, Account.id == ApiKey.account_id).where(ApiKey.id == key_id)
    if account_id is not None:
        statement = statement.where(or_(Account.id == account_id, Account.test_of == account_id))
    key = session.scalars(statement).first()
    if key is None:
        raise ServiceError("not_found", detail=f"There is no key {key_id}.")
    return key


def overlap_of(text: str) -> timedelta:
    """The time for which an old token goes on working. Raises `invalid_string` for one that the form does not
    have."""
    if text not in OVERLAPS:
        raise ServiceError(
            "invalid_string", field="overlap", detail=f"{text!r} is not one of {', '.join(OVERLAPS)} hours."
        )
    return timedelta(hours=int(text))
