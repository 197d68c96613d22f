"""Seeding an account and what belongs to it alone: keys, domains, senders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.accounts.accounts import account_named, create_account, update_account
from app.accounts.auth import hash_token
from app.accounts.domains import add_domain
from app.accounts.keys import check_level, issue_key, key_named, replace_token
from app.accounts.senders import create_sender, sender_at, update_sender
from app.db.changes import apply_changes
from app.db.database import Transaction
from app.db.lookup import find_by_name_or_id
from app.db.models import ApiKey, List
from app.errors import ServiceError
from app.seed.report import AccountReport
from app.seed.shape import located
from app.seed.target import Target
from app.services import Services

OWN = (
    *("name", "owner_email", "owner_confirmed", "allowed_networks", "rate_limit", "track_opens", "track_clicks"),
    "time_zone",
)
DEFAULT_FROM = {"default_from_name": "default_from.name", "default_from_address": "default_from.address"}


def bring_account(services: Services, transaction: Transaction, described: Mapping[str, Any], path: str) -> Target:
    """Finds the account by its name or creates it, and gives it the described attributes."""
    attributes = {name: described[name] for name in OWN if name in described}
    if "default_from" in described:
        sender = described["default_from"] or {}
        attributes["default_from_name"] = sender.get("name")
        attributes["default_from_address"] = sender.get("address")
    account = account_named(transaction, described["name"])
    created, updated = account is None, False
    with located(path, DEFAULT_FROM):
        if account is None:
            account = create_account(transaction, attributes)
        else:
            updated = update_account(transaction, account, attributes)
    report = AccountReport(account.id, account.name)
    report.count("account", created=created, updated=updated)
    return Target(services, transaction, account, path, report)


def bring_keys(target: Target, described: Sequence[Mapping[str, Any]]) -> None:
    """Keys, found by their name."""
    for index, one in enumerate(described):
        with located(f"{target.path}.keys[{index}]"):
            key = key_named(target.transaction, target.account.id, one["name"])
            if key is None:
                _create_key(target, one)
            else:
                _update_key(target, key, one)


def _create_key(target: Target, described: Mapping[str, Any]) -> None:
    if "access_level" not in described:
        raise ServiceError("required", field="access_level", detail="is required")
    given = described.get("token")
    key, token = issue_key(
        target.transaction,
        target.account.id,
        described["name"],
        described["access_level"],
        token=given,
        expires=described.get("expires"),
    )
    shown = {} if given else {"token": token}
    target.report.keys.append({"id": key.id, "name": key.name, **shown})
    target.report.count("key", created=True)


def _update_key(target: Target, key: ApiKey, described: Mapping[str, Any]) -> None:
    """A revoked key stays revoked until the file gives it another token: whoever revoked it had a reason."""
    attributes = {}
    if "access_level" in described:
        check_level(described["access_level"])
        attributes["access_level"] = described["access_level"]
    if "expires" in described:
        attributes["expiry_time"] = described["expires"]
    updated = apply_changes(key, attributes)
    token = described.get("token")
    if token is not None and hash_token(token) != key.token_hash:
        replace_token(target.transaction, key, token)
        updated = True
    if key.revoked_time:
        target.report.notes.append(f"  key {key.name} is revoked and stays so; give it another token to use it again")
    target.report.keys.append({"id": key.id, "name": key.name})
    target.report.count("key", created=False, updated=updated)


def bring_domains(target: Target, described: Sequence[str]) -> None:
    """Sending domains, which a seed file takes as verified, with keys to sign with."""
    for index, name in enumerate(described):
        with located(f"{target.path}.domains[{index}]", {"domain": ""}):
            changed = add_domain(
                target.transaction,
                target.account.id,
                name,
                trusted=True,
                secret_key=target.services.settings.secret_key,
            )
        target.report.count("domain", created=changed)


def bring_senders(target: Target, described: Sequence[Mapping[str, Any]]) -> None:
    """Sms senders, found by their address. Without a `list` a known sender keeps the one it has; null takes it away."""
    for index, one in enumerate(described):
        with located(f"{target.path}.sms_senders[{index}]"):
            list_id = _list_id(target, one.get("list"))
            sender = sender_at(target.transaction, target.account.id, one["address"])
            if sender is None:
                rate = one.get("messages_per_second")
                create_sender(target.transaction, target.account.id, one["address"], one["kind"], list_id, rate=rate)
                target.report.count("sender", created=True)
                continue
            kept = list_id if "list" in one else sender.list_id
            rate = one.get("messages_per_second", sender.messages_per_second)
            updated = update_sender(sender, kind=one["kind"], list_id=kept, rate=rate)
        target.report.count("sender", created=False, updated=updated)


def _list_id(target: Target, name: str | None) -> int | None:
    if name is None:
        return None
    return find_by_name_or_id(target.transaction, List, target.account.id, name, "list").id
