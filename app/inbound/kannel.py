"""Kannel's callbacks: their URLs, and the effect of calling them (docs/sms.md#gateways).

A receipt is sent to a URL with a token that identifies one message; a reply to a URL with a secret, which is in
Kannel's configuration. Both are derived from SECRET_KEY, so there is nothing to set.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping

from app.decoding import decode
from app.errors import ServiceError
from app.inbound.effect import Effect
from app.inbound.receipts import Receipt, ReceiptStatus, take_receipt
from app.inbound.replies import record_reply
from app.services import Services
from app.settings import Settings
from app.tracking.tokens import SMS_RECEIPT_PURPOSE, recipient_from_token

FINAL_STATUSES: Mapping[str, ReceiptStatus] = {"1": "delivered", "2": "failed", "16": "failed"}
"""Kannel's kinds of final receipts; the others are about messages in flight."""
PATIENCE = 5.0
"""Seconds that a receipt waits for its message to be written as sent, before Kannel is asked to retry."""


def reply_url(settings: Settings) -> str:
    """The `get-url` of replies for Kannel's configuration, with Kannel's own escapes."""
    query = f"secret={reply_secret(settings.secret_key)}&from=%p&to=%P&text=%b&charset=%C&id=%I"
    return f"{settings.public_url}/inbound/kannel/mo?{query}"


def reply_secret(secret_key: str) -> str:
    """The secret that proves that a call comes from our own gateway."""
    key = f"transactional-messaging-service sms replies\0{secret_key}".encode()
    return base64.urlsafe_b64encode(hmac.digest(key, b"kannel", hashlib.sha256)[:18]).decode("ascii")


def take_kannel_receipt(services: Services, token: str, kind: str, answer: str) -> None:
    """Writes what the receipt says; one of a message in flight changes nothing.

    Raises `ServiceError`: `not_found` for a forged token, `service_unavailable` for a receipt that came before its
    message was written as sent, which Kannel must send again.
    """
    recipient_id = recipient_from_token(services.settings.secret_keys, SMS_RECEIPT_PURPOSE, token)
    if recipient_id is None:
        raise ServiceError("not_found")
    if kind not in FINAL_STATUSES:
        return
    detail = f"receipt {kind}: {answer}" if answer else f"receipt {kind}"
    effect = take_receipt(services, Receipt(recipient_id, FINAL_STATUSES[kind], detail), patience=PATIENCE)
    if effect is Effect.UNKNOWN:
        raise ServiceError("not_found")
    if effect is Effect.EARLY:
        raise ServiceError("service_unavailable", retry_after=5)


def take_kannel_reply(services: Services, secret: str, parameters: Mapping[str, bytes]) -> None:
    """Records the reply; the same `id` again changes nothing.

    Raises `ServiceError`: `permission_denied` for a wrong secret, `invalid_request` if something is missing,
    `not_found` for a number that no account has.
    """
    expected = map(reply_secret, services.settings.secret_keys)
    if not any(hmac.compare_digest(secret.encode(), valid_secret.encode()) for valid_secret in expected):
        raise ServiceError("permission_denied")
    plain = {name: value.decode("utf-8", "replace").strip() for name, value in parameters.items()}
    mobile, number = plain.get("from", ""), plain.get("to", "")
    if not mobile or not number:
        raise ServiceError("invalid_request", detail="from and to are needed")
    text = _decoded(parameters.get("text", b""), plain.get("charset", ""))
    message_id = plain.get("id") or None
    try:
        services.database.transact(
            lambda transaction: record_reply(transaction, mobile, number, text, message_id=message_id)
        )
    except ServiceError as error:
        raise ServiceError("not_found") from error


def _decoded(text: bytes, charset: str) -> str:
    """The text in the character set that Kannel names; GSM stands for one that it has already converted to UTF-8."""
    try:
        return decode(text, "utf-8" if charset.upper() in ("", "GSM") else charset, "replace")
    except (LookupError, ValueError):
        return text.decode("utf-8", "replace")
