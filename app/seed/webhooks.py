"""Seeding webhooks and their secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.db.lookup import find_by_name_or_id
from app.db.models import List, Webhook
from app.errors import ServiceError
from app.events.guarded_connection import CheckedUrl
from app.events.registration import checked_url
from app.events.webhooks import (
    choose_events,
    create_webhook,
    new_key_id,
    new_secret,
    set_secrets,
    webhook_at,
)
from app.seed.errors import located
from app.seed.report import SeedContext
from app.settings import Settings

FIRST_SECRET = {"id": "secrets.0.id", "secret": "secrets.0.secret"}


Urls = Mapping[str, CheckedUrl | ServiceError]
"""URL of a file -> its checked form, or the error why it cannot be registered."""


def check_urls(settings: Settings, accounts: Sequence[Mapping[str, Any]]) -> Urls:
    """Checks all URLs of a file before its transaction begins: a name server may be slow to answer. The error of a URL
    counts only if the webhook is new."""
    return {url: _check_url(settings, url) for account in accounts for url in _urls(account)}


def _urls(account: Mapping[str, Any]) -> list[str]:
    return [webhook["url"] for webhook in account.get("webhooks", [])]


def _check_url(settings: Settings, url: str) -> CheckedUrl | ServiceError:
    try:
        return checked_url(settings, url)
    except ServiceError as error:
        return error


def apply_webhooks(context: SeedContext, entries: Sequence[Mapping[str, Any]], urls: Urls) -> None:
    """Webhooks, found by their url. A new one without secrets gets one, which the report shows once."""
    for path, entry in context.entries("webhooks", entries):
        webhook = webhook_at(context.transaction, context.account.id, entry["url"])
        if webhook is None:
            _create(context, entry, path, urls[entry["url"]])
        else:
            updated = _apply_secrets(context, webhook, entry.get("secrets", []), path)
            updated |= _apply_choice(context, webhook, entry, path)
            context.report.webhooks.append({"id": webhook.id, "url": webhook.url, **context.mark})
            context.report.count("webhook", created=False, updated=updated)


def _create(context: SeedContext, entry: Mapping[str, Any], path: str, url: CheckedUrl | ServiceError) -> None:
    given = entry.get("secrets", [])
    generated = [] if given else [{"id": new_key_id([]), "secret": new_secret()}]
    settings = context.services.settings
    with located(path, FIRST_SECRET):
        if isinstance(url, ServiceError):
            raise url
        webhook = create_webhook(
            context.transaction,
            settings,
            context.account.id,
            url,
            [(secret["id"], secret["secret"]) for secret in generated or given[:1]],
        )
    _apply_secrets(context, webhook, given, path)
    _apply_choice(context, webhook, entry, path)
    secrets_entry = {"secrets": generated} if generated else {}
    context.report.webhooks.append({"id": webhook.id, "url": webhook.url, **context.mark, **secrets_entry})
    context.report.count("webhook", created=True)


def _apply_secrets(context: SeedContext, webhook: Webhook, entries: Sequence[Mapping[str, Any]], path: str) -> bool:
    """Secrets, found by their id; returns whether any changed."""
    given = [(entry["id"], entry["secret"]) for entry in entries]
    with located(path):
        return set_secrets(context.transaction, context.services.settings, webhook, given)


def _apply_choice(context: SeedContext, webhook: Webhook, entry: Mapping[str, Any], path: str) -> bool:
    """What the webhook receives, of the keys that the entry has; returns whether that changed."""
    with located(path):
        events = entry.get("events", webhook.chosen_events)
        ids = webhook.chosen_lists
        if "lists" in entry:
            names = entry["lists"]
            ids = None if names is None else [_list_id(context, name) for name in names]
        return choose_events(context.transaction, webhook, events, ids)


def _list_id(context: SeedContext, name: str) -> int:
    return find_by_name_or_id(context.transaction, List, context.account.id, name, "list").id
