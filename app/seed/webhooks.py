"""Seeding webhooks and their secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.db.models import Webhook
from app.events.webhooks import create_webhook, new_key_id, new_secret, set_secret, webhook_at
from app.seed.shape import located
from app.seed.target import Target

FIRST_SECRET = {"id": "secrets.0.id", "secret": "secrets.0.secret"}


def bring_webhooks(target: Target, described: Sequence[Mapping[str, Any]]) -> None:
    """Webhooks, found by their url. A new one without secrets gets one, which the report shows once."""
    for index, one in enumerate(described):
        path = f"{target.path}.webhooks[{index}]"
        webhook = webhook_at(target.transaction, target.account.id, one["url"])
        if webhook is None:
            _create(target, one, path)
        else:
            updated = _bring_secrets(target, webhook, one.get("secrets", []), path)
            target.report.webhooks.append({"id": webhook.id, "url": webhook.url})
            target.report.count("webhook", created=False, updated=updated)


def _create(target: Target, described: Mapping[str, Any], path: str) -> None:
    given = described.get("secrets", [])
    generated = [] if given else [{"id": new_key_id([]), "secret": new_secret()}]
    settings = target.services.settings
    with located(path, FIRST_SECRET):
        webhook = create_webhook(
            target.transaction,
            settings,
            target.account.id,
            described["url"],
            [(one["id"], one["secret"]) for one in generated or given[:1]],
        )
    _bring_secrets(target, webhook, given, path)
    shown = {"secrets": generated} if generated else {}
    target.report.webhooks.append({"id": webhook.id, "url": webhook.url, **shown})
    target.report.count("webhook", created=True)


def _bring_secrets(target: Target, webhook: Webhook, described: Sequence[Mapping[str, Any]], path: str) -> bool:
    """Secrets, found by their id; tells whether any changed."""
    changed = False
    for index, one in enumerate(described):
        with located(f"{path}.secrets[{index}]"):
            changed |= set_secret(target.transaction, target.services.settings, webhook, one["id"], one["secret"])
    return changed
