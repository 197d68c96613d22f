"""Issuing, rotating and revoking API keys: a token is shown once and stored as a hash
(docs/requests.md#keys-and-scopes).

A name belongs to the key that has it now. One that was rotated, or revoked before its name was given to another, keeps
its row under a name with its id, so that logs and lists tell the two apart.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.auth import MANAGER, SCOPES, TOKEN_PREFIX, hash_token, new_token, token_hint
from app.clock import now, this_second
from app.db.lookup import find_by_name_or_id
from app.db.models import Account, ApiKey, List
from app.errors import ServiceError
from app.ids import shown_id
from app.names import check_name

TOKEN = re.compile(rf"{TOKEN_PREFIX}[A-Za-z0-9_-]{{43,200}}")
"""43 characters of the URL-safe alphabet have 256 bits."""
RESTORE_PERIOD = timedelta(seconds=30)
"""For how long a revocation can be taken back."""
MAX_START_LENGTH = 225
"""Maximum length of the start of a name to which an id is added."""


def list_keys(session: Session, account_id: int) -> list[ApiKey]:
    """The keys of the account, including revoked ones and former tokens, by name."""
    return list(session.scalars(select(ApiKey).where(ApiKey.account_id == account_id).order_by(ApiKey.name)))


def key_named(session: Session, account_id: int, name: str) -> ApiKey | None:
    """The account's key of that name."""
    return session.scalars(select(ApiKey).where(ApiKey.account_id == account_id, ApiKey.name == name)).first()


def find_key(session: Session, account_id: int, name: str) -> ApiKey:
    """The account's key of that name. Raises `ServiceError` (`invalid_id`)."""
    key = key_named(session, account_id, name)
    if key is None:
        raise ServiceError("invalid_id", field="name", detail=f"the account has no key {name!r}")
    return key


def key_with_token(session: Session, token: str) -> ApiKey | None:
    """The key with this token, of whatever account."""
    return session.scalars(select(ApiKey).where(ApiKey.token_hash == hash_token(token))).first()


def issue_key(
    session: Session,
    account_id: int,
    name: str,
    access_level: str,
    *,
    token: str | None = None,
    expires: datetime | None = None,
) -> tuple[ApiKey, str]:
    """Creates a key; returns it with its token, which is not stored. `token` sets a known one. A revoked key gives its
    name away.

    Raises `ServiceError`: `conflict` for a taken name or token, `invalid_string` for a wrong level or token.
    """
    check_name(name)
    check_level(session, account_id, access_level)
    present = key_named(session, account_id, name)
    if present is not None and present.revoked_time is None:
        raise ServiceError("conflict", field="name", detail=f"the account already has a key {name!r}")
    if token is not None:
        check_token(session, token, owner=None)
    if present is not None:
        _give_name_away(session, present)
    return _stored(session, account_id, name, access_level, token=token, expires=expires)


def rotate_key(session: Session, key: ApiKey, overlap: timedelta) -> tuple[ApiKey, str, datetime]:
    """Gives the name of the key to a new one of the same access level; returns that, its token, and the end of the
    overlap, until which the old token works. No earlier token of the name works longer than that.

    Raises `ServiceError` (`conflict`) for a key that is revoked, or that is a former token itself.
    """
    session.refresh(key, with_for_update=True)
    if key.revoked_time:
        raise ServiceError("conflict", field="name", detail=f"the key {key.name!r} is revoked; create another key")
    if key.former_name is not None:
        raise ServiceError("conflict", field="name", detail=f"was already rotated; rotate {key.former_name!r}")
    name, end = key.name, this_second() + overlap
    _give_name_away(session, key)
    for former in former_tokens(session, key.account_id, name):
        former.valid_until = min(former.valid_until or end, end)
    made, token = _stored(session, key.account_id, name, key.access_level, expires=key.expiry_time)
    made.list_id = key.list_id
    return made, token, end


def set_smtp_list(session: Session, key: ApiKey, named: str | None) -> None:
    """Sets the list of mails that are sent by SMTP with the key and name none: that with this name or id, or none.
    Raises `ServiceError` (`invalid_id`) for a list that the account of the key does not have."""
    row = None if named is None else find_by_name_or_id(session, List, key.account_id, named, "list")
    key.list_id = None if row is None else shown_id(row.id)


def former_tokens(session: Session, account_id: int, name: str) -> list[ApiKey]:
    """The keys that had the name, and were not revoked."""
    statement = select(ApiKey).where(
        ApiKey.account_id == account_id, ApiKey.former_name == name, ApiKey.revoked_time.is_(None)
    )
    return list(session.scalars(statement.order_by(ApiKey.id)))


def _give_name_away(session: Session, key: ApiKey) -> None:
    key.former_name, key.name = key.name, f"{key.name[:MAX_START_LENGTH]} (id {key.id})"
    session.flush()


def _stored(
    session: Session,
    account_id: int,
    name: str,
    access_level: str,
    *,
    token: str | None = None,
    expires: datetime | None = None,
) -> tuple[ApiKey, str]:
    plain_token = token or new_token()
    key = ApiKey(
        account_id=account_id,
        name=name,
        access_level=access_level,
        expiry_time=expires,
        creation_time=this_second(),
        token_hash=hash_token(plain_token),
        token_hint=token_hint(plain_token),
    )
    session.add(key)
    session.flush()
    return key, plain_token


def replace_token(session: Session, key: ApiKey, token: str) -> None:
    """Replaces the token of the key: the old one becomes invalid, and a revoked key valid again."""
    check_token(session, token, owner=key)
    key.token_hash, key.token_hint = hash_token(token), token_hint(token)
    key.creation_time = this_second()
    key.revoked_time = None
    session.flush()


def revoke_key(session: Session, key: ApiKey) -> bool:
    """Revokes the key, with the former tokens of its name; returns whether any was valid until now."""
    moment = now()
    ended = False
    for token in (key, *former_tokens(session, key.account_id, key.name)):
        ended = ended or (token.revoked_time is None and (token.valid_until is None or token.valid_until > moment))
        token.revoked_time = token.revoked_time or this_second()
    return ended


def restore_key(session: Session, key: ApiKey) -> None:
    """Takes back a revocation of the last half minute, with the former tokens that ended with the key. Raises
    `ServiceError` (`conflict`) for a key that is not revoked, or was revoked before that."""
    if key.revoked_time is None:
        raise ServiceError("conflict", field="name", detail=f"the key {key.name!r} is not revoked")
    if now() - key.revoked_time > RESTORE_PERIOD:
        seconds = int(RESTORE_PERIOD.total_seconds())
        detail = f"the key {key.name!r} was revoked more than {seconds} seconds ago; create another key"
        raise ServiceError("conflict", field="name", detail=detail)
    ended_with_it = (
        ApiKey.account_id == key.account_id,
        ApiKey.former_name == key.name,
        ApiKey.revoked_time == key.revoked_time,
    )
    for token in (key, *session.scalars(select(ApiKey).where(*ended_with_it))):
        token.revoked_time = None


def check_level(session: Session, account_id: int, access_level: str) -> None:
    """Raises `ServiceError` (`invalid_string`) unless a key of the account can have the access level."""
    if access_level not in SCOPES:
        levels = ", ".join(SCOPES)
        raise ServiceError("invalid_string", field="access_level", detail=f"{access_level!r} is not one of {levels}")
    if access_level == MANAGER and session.get_one(Account, account_id).test_of is not None:
        raise ServiceError("invalid_string", field="access_level", detail="a test key cannot be of the level manager")


def check_token(session: Session, token: str, *, owner: ApiKey | None) -> None:
    """Raises `ServiceError` unless the token has 256 bits and belongs to no key but the owner."""
    if not TOKEN.fullmatch(token):
        requirement = f"a token is {TOKEN_PREFIX} and at least 43 letters, digits, - or _ from a random source"
        raise ServiceError("invalid_string", field="token", detail=requirement)
    holder = key_with_token(session, token)
    if holder is not None and holder is not owner:
        raise ServiceError("conflict", field="token", detail="this token belongs to another key")
