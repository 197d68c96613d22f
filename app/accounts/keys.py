"""Issuing and revoking API keys: a token is shown once and stored as a hash (docs/requests.md#keys-and-scopes)."""

from __future__ import annotations

import re
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.auth import SCOPES, TOKEN_PREFIX, hash_token, new_token, token_hint
from app.clock import this_second
from app.db.models import ApiKey
from app.errors import ServiceError
from app.names import check_name

TOKEN = re.compile(rf"{TOKEN_PREFIX}[A-Za-z0-9_-]{{43,200}}")
"""43 characters of the URL-safe alphabet have 256 bits."""


def list_keys(session: Session, account_id: int) -> list[ApiKey]:
    """The keys of the account, including revoked ones, by name."""
    return list(session.scalars(select(ApiKey).where(ApiKey.account_id == account_id).order_by(ApiKey.name)))


def key_named(session: Session, account_id: int, name: str) -> ApiKey | None:
    """The account's key of that name."""
    return session.scalars(select(ApiKey).where(ApiKey.account_id == account_id, ApiKey.name == name)).first()


def find_key(session: Session, account_id: int, name: str) -> ApiKey:
    """The account's key of that name. Raises `ServiceError` (`invalid_id`)."""
    found = key_named(session, account_id, name)
    if found is None:
        raise ServiceError("invalid_id", field="name", detail=f"the account has no key {name!r}")
    return found


def issue_key(
    session: Session,
    account_id: int,
    name: str,
    access_level: str,
    *,
    token: str | None = None,
    expires: datetime | None = None,
) -> tuple[ApiKey, str]:
    """Creates a key; returns it with its token, which is not stored. `token` sets a known one.

    Raises `ServiceError`: `conflict` for a taken name or token, `invalid_string` for a wrong level or token.
    """
    check_name(name)
    check_level(access_level)
    if key_named(session, account_id, name) is not None:
        raise ServiceError("conflict", field="name", detail=f"the account has a key {name!r} already")
    if token is not None:
        check_token(session, token, owner=None)
    shown = token or new_token()
    key = ApiKey(
        account_id=account_id,
        name=name,
        access_level=access_level,
        expiry_time=expires,
        creation_time=this_second(),
        token_hash=hash_token(shown),
        token_hint=token_hint(shown),
    )
    session.add(key)
    session.flush()
    return key, shown


def replace_token(session: Session, key: ApiKey, token: str) -> None:
    """Replaces the token of the key: the old one becomes invalid, and a revoked key valid again."""
    check_token(session, token, owner=key)
    key.token_hash, key.token_hint = hash_token(token), token_hint(token)
    key.creation_time = this_second()
    key.revoked_time = None
    session.flush()


def revoke_key(key: ApiKey) -> bool:
    """Revokes the key permanently; returns whether it was valid until now."""
    if key.revoked_time:
        return False
    key.revoked_time = this_second()
    return True


def check_level(access_level: str) -> None:
    """Raises `ServiceError` (`invalid_string`) unless the access level exists."""
    if access_level not in SCOPES:
        levels = ", ".join(SCOPES)
        raise ServiceError("invalid_string", field="access_level", detail=f"{access_level!r} is none of {levels}")


def check_token(session: Session, token: str, *, owner: ApiKey | None) -> None:
    """Raises `ServiceError` unless the token has 256 bits and belongs to no key but the owner."""
    if not TOKEN.fullmatch(token):
        wanted = f"a token is {TOKEN_PREFIX} and at least 43 letters, digits, - or _ from a random source"
        raise ServiceError("invalid_string", field="token", detail=wanted)
    holder = session.scalars(select(ApiKey).where(ApiKey.token_hash == hash_token(token))).first()
    if holder is not None and holder is not owner:
        raise ServiceError("conflict", field="token", detail="this token belongs to another key")
