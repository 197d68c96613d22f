"""Events of Mailgun (docs/relay-hooks.md#mailgun).

Each request has one event and a signature, which covers a time and a one-time token, but not the event. So a token is
accepted for a limited time, and with one event only: a copy of the request changes nothing, and a forged event under an
overheard signature is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import UTC, datetime, timedelta

from app.clock import now
from app.inbound.email.fields import one_line
from app.inbound.email.report import Report, ReportKind, failure_status, status_in
from app.inbound.hooks.base import (
    METADATA_NAME,
    NOT_ATTEMPTED_STATUS,
    Fields,
    HookRefused,
    HookRequest,
    RelayEvent,
    address_of,
    fields_of,
    fingerprint_of,
    objects_of,
    soft_status,
    text_of,
    uuid_in,
)
from app.settings import Settings

MAX_AGE = timedelta(hours=12)
"""Mailgun retries for eight hours, perhaps with the first signature."""
MAX_CLOCK_SKEW = timedelta(minutes=5)
"""How far the time of a signature may be ahead of our clock."""
TOKEN_LIFETIME = MAX_AGE + MAX_CLOCK_SKEW
"""For how long after its first use a token may come again with a signature that is accepted."""
MAX_TOKEN_LENGTH = 200
TOO_OLD_STATUS = "4.4.7"
"""Mailgun gave up retrying."""
_SECONDS = re.compile(r"[0-9]{1,11}")


class MailgunHook:
    """The hook of Mailgun's webhooks."""

    success = 200

    def __init__(self, signing_key: str) -> None:
        self._key = signing_key.encode()

    @classmethod
    def of(cls, settings: Settings) -> MailgunHook | None:
        """The hook with the key in the settings; None without MAILGUN_SIGNING_KEY."""
        return cls(settings.mailgun_signing_key) if settings.mailgun_signing_key else None

    def read(self, request: HookRequest) -> list[RelayEvent]:
        """The event of the request."""
        (document, *_) = objects_of([request.document()]) or [{}]
        token = self._checked_token(fields_of(document, "signature"))
        event = fields_of(document, "event-data")
        fingerprint = fingerprint_of("mailgun", text_of(event, "id"), event)
        return [RelayEvent(report_of(event), fingerprint, _uuid(event), token=token)]

    def _checked_token(self, signature: Fields) -> str:
        """The token of a valid signature. Raises `HookRefused`."""
        seconds, token = text_of(signature, "timestamp"), text_of(signature, "token")
        expected = hmac.digest(self._key, f"{seconds}{token}".encode(), hashlib.sha256).hex()
        is_signed = hmac.compare_digest(expected.encode(), text_of(signature, "signature").encode())
        if not (is_signed and token and len(token) <= MAX_TOKEN_LENGTH and _SECONDS.fullmatch(seconds)):
            raise HookRefused("its signature is wrong")
        age = now() - datetime.fromtimestamp(int(seconds), UTC)
        if not -MAX_CLOCK_SKEW <= age <= MAX_AGE:
            raise HookRefused("its signature is too old, or this machine's clock is wrong")
        return token


def report_of(event: Fields) -> Report | None:
    """The event in the terms of this service; None for one that reports nothing, such as an open."""
    status = fields_of(event, "delivery-status")
    detail = one_line(text_of(status, "message") or text_of(status, "description") or text_of(event, "reason"))
    about = address_of(text_of(event, "recipient"))
    match text_of(event, "event"):
        case "failed" if text_of(event, "severity") == "temporary":
            return Report(ReportKind.DELAYED, _own_status(status) or status_in(detail), detail, about)
        case "failed":
            return Report(ReportKind.FAILED, _failure(event, status, detail), detail, about)
        case "rejected":
            reason = one_line(text_of(fields_of(event, "reject"), "reason"))
            return Report(ReportKind.FAILED, NOT_ATTEMPTED_STATUS, reason or detail, about)
        case "delivered":
            return Report(ReportKind.ARRIVED, _own_status(status) or status_in(detail), detail, about)
        case "complained":
            return Report(ReportKind.COMPLAINT, None, "spam complaint at Mailgun", about)
        case "unsubscribed":
            return Report(ReportKind.OPT_OUT, None, "unsubscribed at Mailgun", about)
    return None


def _failure(event: Fields, status: Fields, detail: str) -> str:
    """A permanent failure is one of the address unless Mailgun says otherwise."""
    reason = text_of(event, "reason")
    if reason.startswith("suppress-"):
        return NOT_ATTEMPTED_STATUS
    if reason == "old":
        return TOO_OLD_STATUS
    status_code = _own_status(status)
    if text_of(status, "bounce-type") == "soft":
        return soft_status(status_code, detail or text_of(status, "code"))
    return failure_status(status_code or None, detail or text_of(status, "code"))


def _own_status(status: Fields) -> str:
    return status_in(text_of(status, "enhanced-code")) or ""


def _uuid(event: Fields) -> str | None:
    """Mailgun keeps the Message-ID of a mail, and returns its metadata."""
    uuid = uuid_in(text_of(fields_of(event, "user-variables"), METADATA_NAME))
    return uuid or uuid_in(text_of(fields_of(fields_of(event, "message"), "headers"), "message-id"))
