"""Registering a webhook by a request, which cannot wait for name servers (docs/webhooks.md#ssrf-guard)."""

from __future__ import annotations

from collections.abc import Sequence

from app.db.database import Transaction
from app.db.models import Webhook
from app.db.models.webhooks import UNCHECKED_BAR
from app.events.guarded_connection import CheckedUrl, has_name
from app.events.webhooks import create_webhook
from app.network_checks.ask import ask
from app.services import Services


def register_webhook(
    transaction: Transaction, services: Services, account_id: int, url: CheckedUrl, signers: Sequence[tuple[str, str]]
) -> Webhook:
    """Registers a webhook, and has a worker look up where its host leads, unless any host may be reached: nothing is
    sent to it before. Raises what `create_webhook` and `ask` raise."""
    barred = UNCHECKED_BAR if has_name(url) and not services.settings.webhook_allow_private else None
    row = create_webhook(transaction, services.settings, account_id, url, signers, barred=barred)
    if barred:
        ask(transaction, services, "webhook", account_id, row.id)
    return row
