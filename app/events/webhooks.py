"""Operations on webhooks: register, rotate secrets, inspect, delete (docs/webhooks.md).

A webhook always has a secret, and every secret signs each request until it is removed, so that a receiver can change
over at any time.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

from jwt import InvalidKeyError
from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from app.clock import now, this_second
from app.db.database import Transaction
from app.db.models import Webhook, WebhookAttempt, WebhookSecret
from app.db.models.webhooks import UNCHECKED_BAR
from app.errors import ServiceError
from app.events.batch_contents import waiting_events
from app.events.guarded_connection import CheckedUrl, check_form, is_for_development
from app.events.outbox import event_names
from app.events.signing import check_secret
from app.ids import id_in, shown_id
from app.secret_keys import SecretUnreadable, decrypt, encrypt
from app.settings import Settings

DEVELOPMENT_HINT = "for development, WEBHOOK_ALLOW_PRIVATE=on allows http and private addresses"
KEY_ID_FORM = re.compile(r"[!-~]{1,64}")
MAX_SECRETS = 20
"""Secrets of one webhook: each of them signs every request."""
MIN_SECRET_BYTES = 32
"""HS256 must not be used with a shorter key (RFC 7518, 3.2)."""


def list_webhooks(session: Session, account_id: int) -> list[Webhook]:
    """The webhooks of the account, in the order of their registration."""
    return list(session.scalars(select(Webhook).where(Webhook.account_id == account_id).order_by(Webhook.id)))


def webhook_at(session: Session, account_id: int, url: str) -> Webhook | None:
    """The account's webhook with exactly that URL."""
    return session.scalars(select(Webhook).where(Webhook.account_id == account_id, Webhook.url == url)).first()


def find_webhook(session: Session, account_id: int, url_or_id: str) -> Webhook:
    """The account's webhook with that URL, else with that id. Raises `ServiceError` (`invalid_id`)."""
    webhook = webhook_at(session, account_id, url_or_id)
    if webhook is None and (webhook_id := id_in(url_or_id)) is not None:
        statement = select(Webhook).where(Webhook.account_id == account_id, Webhook.id == webhook_id)
        webhook = session.scalars(statement).first()
    if webhook is None:
        raise ServiceError("invalid_id", field="webhook", detail=f"the account has no webhook {url_or_id!r}")
    return webhook


def well_formed_url(settings: Settings, url: str) -> CheckedUrl:
    """The URL of a webhook. Raises `ServiceError` (`invalid_url`) if it is malformed or has a non-global address."""
    try:
        return check_form(url, settings)
    except ValueError as error:
        raise refused_url(url, error) from None


def refused_url(url: str, error: ValueError) -> ServiceError:
    """What is said of a URL that cannot be registered."""
    hint = f" ({DEVELOPMENT_HINT})" if is_for_development(url) else ""
    return ServiceError("invalid_url", field="url", detail=f"{error}{hint}")


def create_webhook(
    transaction: Transaction,
    settings: Settings,
    account_id: int,
    url: CheckedUrl,
    signers: Sequence[tuple[str, str]],
    *,
    barred: str | None = None,
) -> Webhook:
    """Registers a webhook for the events from now on; `signers` are pairs of key id and secret, at least one. Nothing
    is sent to one that is barred.

    Raises `ServiceError`: `conflict` if the URL is registered already, and what `set_secret` raises.
    """
    if not signers:
        raise ServiceError("not_empty", field="secrets", detail="a webhook needs at least one secret")
    if webhook_at(transaction, account_id, url) is not None:
        raise ServiceError("conflict", field="url", detail=f"the account already has a webhook at {url}")
    webhook = Webhook(account_id=account_id, url=url, creation_time=this_second(), due_time=now(), barred=barred)
    transaction.add(webhook)
    transaction.flush()
    for key_id, secret in signers:
        set_secret(transaction, settings, webhook, key_id, secret)
    return webhook


def check_again(webhook: Webhook) -> None:
    """Has a webhook that was refused wait for another check. Raises `ServiceError` (`conflict`) for one that was
    accepted."""
    if webhook.barred is None:
        raise ServiceError("conflict", detail="The webhook was accepted.")
    webhook.barred = UNCHECKED_BAR


def choose_events(
    transaction: Transaction, webhook: Webhook, events: Sequence[str] | None, lists: Sequence[int] | None
) -> bool:
    """Sets which events the webhook receives from now on, None for all; returns whether anything changed.

    Raises `ServiceError`: what `event_names` raises, and `not_empty` for no event or no list at all.
    """
    if (events is not None and not events) or (lists is not None and not lists):
        raise ServiceError("not_empty", field="events", detail="a webhook without any events would never be called")
    names = None if events is None else event_names(events)
    chosen = names, None if lists is None else sorted({shown_id(list_id) for list_id in lists})
    changed = (webhook.chosen_events, webhook.chosen_lists) != chosen
    webhook.chosen_events, webhook.chosen_lists = chosen
    transaction.flush()
    return changed


def delete_webhook(transaction: Transaction, webhook: Webhook) -> None:
    """Removes the webhook with its secrets and its log. Its events are not read any more."""
    transaction.delete(webhook)
    transaction.flush()


def list_secrets(session: Session, webhook: Webhook) -> list[WebhookSecret]:
    """The secrets of a webhook, oldest first, as stored."""
    return list(session.scalars(_secrets(webhook).order_by(WebhookSecret.id)))


def find_secret(session: Session, webhook: Webhook, key_id: str) -> WebhookSecret:
    """The webhook's secret with that key id. Raises `ServiceError` (`invalid_id`)."""
    stored = _secret(session, webhook, key_id) if KEY_ID_FORM.fullmatch(key_id) else None
    if stored is None:
        raise ServiceError("invalid_id", field="id", detail=f"the webhook has no secret {key_id!r}")
    return stored


def set_secret(transaction: Transaction, settings: Settings, webhook: Webhook, key_id: str, secret: str) -> bool:
    """Adds a secret, or replaces the one with that key id; returns whether anything changed.

    Raises `ServiceError`: `invalid_string` for a wrong key id or a secret that cannot sign, `too_short` for a secret of
    less than 32 bytes, `conflict` for one secret too many.
    """
    stored = _by_key_id(transaction, webhook)
    changed = _set_secret(settings, webhook, stored, key_id, secret)
    transaction.add(stored[key_id])
    transaction.flush()
    return changed


def set_secrets(
    transaction: Transaction, settings: Settings, webhook: Webhook, given: Sequence[tuple[str, str]]
) -> bool:
    """Does so for pairs of key id and secret, which are read in one statement; returns whether anything changed. Raises
    what `set_secret` raises, with the position in `secrets`."""
    if not given:
        return False
    stored, changed = _by_key_id(transaction, webhook), False
    for index, (key_id, secret) in enumerate(given):
        try:
            changed |= _set_secret(settings, webhook, stored, key_id, secret)
        except ServiceError as error:
            raise error.within("secrets", index) from None
    transaction.add_all(stored.values())
    transaction.flush()
    return changed


def rotate_secret(
    transaction: Transaction, settings: Settings, webhook: Webhook, key_id: str | None = None, secret: str | None = None
) -> tuple[str, str]:
    """Adds a secret, by default a new one under a new key id; returns both. The others keep signing until removed.

    Raises `ServiceError`: `conflict` for a key id in use, and what `set_secret` raises.
    """
    key_id = key_id or new_key_id([stored.key_id for stored in list_secrets(transaction, webhook)])
    if _secret(transaction, webhook, key_id) is not None:
        raise ServiceError("conflict", field="id", detail=f"the webhook already has a secret {key_id!r}")
    secret = secret or new_secret()
    set_secret(transaction, settings, webhook, key_id, secret)
    return key_id, secret


def remove_secret(transaction: Transaction, webhook: Webhook, key_id: str) -> None:
    """Deletes a secret. Raises `ServiceError`: `invalid_id` for an unknown one, `conflict` for the only one."""
    # Two operators who each remove a different secret must leave one.
    is_webhook = Webhook.account_id == webhook.account_id, Webhook.id == webhook.id
    transaction.execute(select(Webhook.id).where(*is_webhook).with_for_update(key_share=True))
    stored = find_secret(transaction, webhook, key_id)
    if len(list_secrets(transaction, webhook)) == 1:
        raise ServiceError("conflict", field="id", detail="the only secret of a webhook cannot be removed")
    transaction.delete(stored)
    transaction.flush()


def new_secret() -> str:
    """A secret with 256 bits."""
    return secrets.token_urlsafe(32)


def new_key_id(taken: Sequence[str]) -> str:
    """The first of k1, k2, … that is free."""
    return next(key_id for key_id in (f"k{number}" for number in range(1, len(taken) + 2)) if key_id not in taken)


def pending_events(session: Session, account_id: int) -> dict[int, int]:
    """The number of waiting events by webhook id; webhooks without any are absent."""
    statement = select(Webhook.id, waiting_events()).where(Webhook.account_id == account_id)
    return {webhook_id: waiting for webhook_id, waiting in session.execute(statement) if waiting}


def deliveries(session: Session, webhook: Webhook, limit: int) -> list[WebhookAttempt]:
    """The latest requests to the webhook, the newest first."""
    statement = select(WebhookAttempt).where(WebhookAttempt.webhook_id == webhook.id)
    return list(session.scalars(statement.order_by(WebhookAttempt.id.desc()).limit(limit)))


def _secret(session: Session, webhook: Webhook, key_id: str) -> WebhookSecret | None:
    return session.scalars(_secrets(webhook).where(WebhookSecret.key_id == key_id)).first()


def _by_key_id(session: Session, webhook: Webhook) -> dict[str, WebhookSecret]:
    return {stored.key_id: stored for stored in list_secrets(session, webhook)}


def _set_secret(
    settings: Settings, webhook: Webhook, stored: dict[str, WebhookSecret], key_id: str, secret: str
) -> bool:
    """Adds a secret to those that are stored, or replaces one of them; returns whether anything changed."""
    _check_secret(key_id, secret)
    if key_id not in stored:
        if len(stored) >= MAX_SECRETS:
            detail = f"the webhook already has {MAX_SECRETS} secrets, which is the maximum; remove one"
            raise ServiceError("conflict", field="id", detail=detail)
        stored[key_id] = WebhookSecret(account_id=webhook.account_id, webhook_id=webhook.id, key_id=key_id)
    elif _is_stored_secret(settings, stored[key_id].secret, secret):
        return False
    stored[key_id].secret, stored[key_id].creation_time = encrypt(settings.secret_key, secret), this_second()
    return True


def _secrets(webhook: Webhook) -> Select[WebhookSecret]:
    is_of_account = WebhookSecret.account_id == webhook.account_id
    return select(WebhookSecret).where(is_of_account, WebhookSecret.webhook_id == webhook.id)


def _is_stored_secret(settings: Settings, stored: str, secret: str) -> bool:
    """Whether the stored secret is this one; a secret stored under another SECRET_KEY is lost, so it is not."""
    try:
        return decrypt(settings.secret_keys, stored) == secret
    except SecretUnreadable:
        return False


def _check_secret(key_id: str, secret: str) -> None:
    if not KEY_ID_FORM.fullmatch(key_id):
        raise ServiceError("invalid_string", field="id", detail="an id is 1 to 64 visible ASCII characters")
    if len(secret.encode()) < MIN_SECRET_BYTES:
        detail = f"a signing secret has {MIN_SECRET_BYTES} bytes or more, from a random source"
        raise ServiceError("too_short", field="secret", detail=detail)
    try:
        check_secret(secret)
    except InvalidKeyError:
        detail = "a signing secret is random text; this one looks like a key of another kind"
        raise ServiceError("invalid_string", field="secret", detail=detail) from None
