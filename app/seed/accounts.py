"""Seeding an account with its keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.accounts.accounts import account_named, create_account, update_account
from app.accounts.auth import hash_token
from app.accounts.keys import check_level, issue_key, key_named, key_with_token, replace_token
from app.accounts.testing import refreshed_test_account
from app.db.database import Transaction
from app.db.lookup import find_by_name_or_id
from app.db.models import Account, ApiKey, List
from app.db.models.base import apply_changes
from app.errors import ServiceError
from app.ids import shown_id
from app.seed.errors import located
from app.seed.report import AccountReport, SeedContext, columns_in
from app.seed.webhooks import Urls, apply_webhooks
from app.services import Services

DEFAULT_FROM = {"default_from_name": "default_from.name", "default_from_address": "default_from.address"}


def apply_account(services: Services, transaction: Transaction, entry: Mapping[str, Any], path: str) -> SeedContext:
    """Finds the account by its name or creates it, and sets the attributes of its entry."""
    attributes = columns_in(entry, Account)
    if "default_from" in entry:
        sender = entry["default_from"] or {}
        attributes["default_from_name"] = sender.get("name")
        attributes["default_from_address"] = sender.get("address")
    account = account_named(transaction, entry["name"])
    created, updated = account is None, False
    with located(path, DEFAULT_FROM):
        if account is None:
            account = create_account(transaction, attributes)
        else:
            updated = update_account(transaction, account, attributes)
    report = AccountReport(account.id, account.name)
    report.count("account", created=created, updated=updated)
    return SeedContext(services, transaction, account, path, report)


def apply_keys(context: SeedContext, entries: Sequence[Mapping[str, Any]]) -> None:
    """Keys, found by their name."""
    for path, entry in context.entries("keys", entries):
        with located(path):
            key = key_named(context.transaction, context.account.id, entry["name"])
            if key is None:
                _create_key(context, entry)
            else:
                _update_key(context, key, entry)


def _create_key(context: SeedContext, entry: Mapping[str, Any]) -> None:
    if "access_level" not in entry:
        raise ServiceError("required", field="access_level", detail="is required")
    given = entry.get("token")
    key, token = issue_key(
        context.transaction,
        context.account.id,
        entry["name"],
        entry["access_level"],
        token=given,
        expires=entry.get("expires"),
    )
    key.list_id = _list_id(context, entry)
    token_entry = {} if given else {"token": token}
    context.report.keys.append({"id": key.id, "name": key.name, **context.mark, **token_entry})
    context.report.count("key", created=True)


def _update_key(context: SeedContext, key: ApiKey, entry: Mapping[str, Any]) -> None:
    """A revoked key stays revoked until the file gives it another token: it was revoked for a reason."""
    attributes = {}
    if "access_level" in entry:
        check_level(context.transaction, context.account.id, entry["access_level"])
        attributes["access_level"] = entry["access_level"]
    if "expires" in entry:
        attributes["expiry_time"] = entry["expires"]
    if "list" in entry:
        attributes["list_id"] = _list_id(context, entry)
    updated = apply_changes(key, attributes)
    token = entry.get("token")
    if token is not None and _is_former(context, key, token):
        context.report.notes.append(f"  key {key.name} now has another token and keeps it")
    elif token is not None and hash_token(token) != key.token_hash:
        replace_token(context.transaction, key, token)
        updated = True
    if key.revoked_time:
        context.report.notes.append(
            f"  key {key.name} is revoked and stays revoked; give it another token to use it again"
        )
    context.report.keys.append({"id": key.id, "name": key.name, **context.mark})
    context.report.count("key", created=False, updated=updated)


def _list_id(context: SeedContext, entry: Mapping[str, Any]) -> int | None:
    """The list of mails that are sent by SMTP with the key, as everybody outside names it."""
    name = entry.get("list")
    if name is None:
        return None
    return shown_id(find_by_name_or_id(context.transaction, List, context.account.id, name, "list").id)


def _is_former(context: SeedContext, key: ApiKey, token: str) -> bool:
    """Whether the token was that of the name before the key was rotated, or revoked and created anew."""
    former = key_with_token(context.transaction, token)
    return former is not None and (former.account_id, former.former_name) == (key.account_id, key.name)


# Seeding test keys and test webhooks, which belong to the test account (docs/testing.md).

Entries = Sequence[Mapping[str, Any]]


def apply_tests(context: SeedContext, keys: Entries, webhooks: Entries, urls: Urls) -> None:
    """The keys and webhooks with `test: true`, once the test account has copies of everything as it is now. Where there
    is no such entry, nothing is done."""
    test_context = replace(context, is_test=True)
    paths = [
        path
        for noun, entries in (("keys", keys), ("webhooks", webhooks))
        for path, _ in test_context.entries(noun, entries)
    ]
    if not paths:
        return
    with located(paths[0], {"name": "test", "account": "test"}):
        account = refreshed_test_account(context.transaction, context.account)
    test_context = replace(test_context, account=account)
    apply_keys(test_context, keys)
    apply_webhooks(test_context, webhooks, urls)
