"""Seeding webhooks and their secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.db.models import Webhook
from app.errors import ServiceError
from app.events.ssrf_guard import CheckedUrl
from app.events.webhooks import checked_url, create_webhook, new_key_id, new_secret, set_secret, webhook_at
from app.seed.shape import located
from app.seed.target import Target
from app.settings import Settings

FIRST_SECRET = {"id": "secrets.0.id", "secret": "secrets.0.secret"}


Urls = Mapping[str, CheckedUrl | ServiceError]
"""The URLs of a file -> whether each may be registered, or why not."""


def check_urls(settings: Settings, accounts: Sequence[Mapping[str, Any]]) -> Urls:
    """All of a file, before its transaction begins: a name server may be slow to answer. What is wrong with one counts
    only where it is new."""
    return {url: _checked(settings, url) for one in accounts for url in _urls(one)}


def _urls(account: Mapping[str, Any]) -> list[str]:
    return [webhook["url"] for webhook in account.get("webhooks", [])]


def _checked(settings: Settings, url: str) -> CheckedUrl | ServiceError:
    try:
        return checked_url(settings, url)
    except ServiceError as error:
        return error


def bring_webhooks(target: Target, described: Sequence[Mapping[str, Any]], urls: Urls) -> None:
    """Webhooks, found by their url. A new one without secrets gets one, which the report shows once."""
    for index, one in enumerate(described):
        path = f"{target.path}.webhooks[{index}]"
        webhook = webhook_at(target.transaction, target.account.id, one["url"])
        if webhook is None:
            _create(target, one, path, urls[one["url"]])
        else:
            updated = _bring_secrets(target, webhook, one.get("secrets", []), path)
            target.report.webhooks.append({"id": webhook.id, "url": webhook.url})
            target.report.count("webhook", created=False, updated=updated)


def _create(target: Target, described: Mapping[str, Any], path: str, url: CheckedUrl | ServiceError) -> None:
    given = described.get("secrets", [])
    generated = [] if given else [{"id": new_key_id([]), "secret": new_secret()}]
    settings = target.services.settings
    with located(path, FIRST_SECRET):
        if isinstance(url, ServiceError):
            raise url
        webhook = create_webhook(
            target.transaction,
            settings,
            target.account.id,
            url,
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
