"""Whether the host of a webhook may be reached. This waits for name servers, so only a worker and the command line do
it (docs/webhooks.md#ssrf-guard)."""

from __future__ import annotations

import contextlib
import logging

from sqlalchemy import select, update

from app.db.commit_order import last_event_id
from app.db.models import Webhook
from app.db.models.webhooks import UNCHECKED_BAR
from app.events.guarded_connection import (
    CheckedUrl,
    ForbiddenAddress,
    ascii_host,
    check_addresses,
    check_form,
    split_url,
)
from app.events.webhooks import refused_url
from app.network.lookup import look_up
from app.services import Services
from app.settings import Settings

LOOKUP_TIMEOUT = 3.0
"""Seconds, at registration; a connection has its own limit."""
NOT_CHECKED_DETAIL = "its host could not be checked"

logger = logging.getLogger(__name__)


def check_url(url: str, settings: Settings) -> CheckedUrl:
    """The URL, which can be registered. Raises `ForbiddenAddress` (a `ValueError`) if it cannot.

    A host that cannot be resolved now is accepted: nothing can be reached by it, and each connection checks again.
    """
    checked = check_form(url, settings)
    if not settings.webhook_allow_private:
        host = ascii_host(split_url(url, allow_private=False))
        with contextlib.suppress(OSError):
            check_addresses(host, look_up(host, LOOKUP_TIMEOUT))
    return checked


def checked_url(settings: Settings, url: str) -> CheckedUrl:
    """The URL of a webhook, before the transaction that registers it: a name server may be slow to answer.

    Raises `ServiceError` (`invalid_url`) if it is malformed or leads to a non-global address.
    """
    try:
        return check_url(url, settings)
    except ValueError as error:
        raise refused_url(url, error) from None


def check_webhook(services: Services, account_id: int, webhook_id: int) -> None:
    """Accepts a webhook that is being checked, or bars it with the reason."""
    with services.database.read() as session:
        unchecked = Webhook.account_id == account_id, Webhook.id == webhook_id, Webhook.barred == UNCHECKED_BAR
        url = session.scalars(select(Webhook.url).where(*unchecked)).first()
    if url is None:
        return
    try:
        check_url(url, services.settings)
    except ForbiddenAddress as error:
        _decide(services, account_id, webhook_id, str(error))
    else:
        _decide(services, account_id, webhook_id, None)


def give_up_webhook(services: Services, account_id: int, webhook_id: int) -> None:
    """Bars a webhook whose check has failed; it can be checked again."""
    _decide(services, account_id, webhook_id, NOT_CHECKED_DETAIL)


def _decide(services: Services, account_id: int, webhook_id: int, barred: str | None) -> None:
    """What has happened since the registration is sent to a webhook that is accepted, and passed by one that is not."""
    with services.database.write() as transaction:
        unchecked = Webhook.account_id == account_id, Webhook.id == webhook_id, Webhook.barred == UNCHECKED_BAR
        values = {"barred": barred} | ({"position": last_event_id(transaction)} if barred else {})
        decided = update(Webhook).where(*unchecked).values(**values)
        transaction.execute(decided, execution_options={"synchronize_session": False})
    if barred:
        logger.warning("webhook %s: refused, because it %s", webhook_id, barred)
