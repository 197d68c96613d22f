"""Events of Amazon SES, which come through Amazon SNS (docs/relay-hooks.md#amazon-ses)."""

from __future__ import annotations

import base64
import binascii
import logging
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import TypeVar
from urllib.parse import urlencode

import orjson
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256

from app.clock import now
from app.events.guarded_connection import fetch, trusted_roots
from app.inbound.email.fields import one_line
from app.inbound.email.report import KIND_BY_FEEDBACK_TYPE, Report, ReportKind, failure_status, status_in
from app.inbound.hooks.base import (
    NOT_ATTEMPTED_STATUS,
    Fields,
    HookBusy,
    HookRefused,
    HookRequest,
    RelayEvent,
    address_of,
    diagnostic,
    fields_of,
    fingerprint_of,
    hard_status,
    objects_of,
    soft_status,
    text_of,
    uuid_in,
)
from app.settings import Settings

logger = logging.getLogger(__name__)


Value = TypeVar("Value")
Fetch = Callable[[str], bytes]
"""Fetches a document; raises `OSError`."""

SIGNED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    "SubscriptionConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
    "UnsubscribeConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
}
"""Type of a message -> the members that its signature covers, in their order."""
HASH_BY_VERSION: Mapping[str, type[SHA1 | SHA256]] = {"1": SHA1, "2": SHA256}
MAX_AGE = timedelta(hours=12)
"""Amazon retries for an hour unless the topic says otherwise."""
MAX_CLOCK_SKEW = timedelta(minutes=5)
MAX_DOCUMENTS = 16
RETRY_SECONDS = 30.0
"""Seconds for which a document that cannot be fetched is not tried again."""
FETCH_THREAD_NAME = "document-of-amazon"
"""The name of the threads that fetch."""
_CERTIFICATE = re.compile(r"SimpleNotificationService-[0-9a-f]{1,64}\.pem")


def host_of_topic(topic: str) -> str:
    """The host of Amazon SNS in the region of a topic."""
    _, partition, _, region, *_ = topic.split(":")
    return f"sns.{region}.amazonaws.com{'.cn' if partition == 'aws-cn' else ''}"


class Documents:
    """Documents of Amazon, which are fetched in a thread of their own, one at a time: no request waits for them, and
    Amazon repeats the one that has asked."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._lock = threading.Lock()
        self._is_fetching = False
        self._fetched: dict[str, bytes] = {}
        self._failed: dict[str, tuple[float, OSError]] = {}

    def take(self, url: str) -> bytes:
        """The document, which is forgotten then. Raises `HookBusy` until it is there, and `OSError` for a while if it
        cannot be fetched."""
        with self._lock:
            if url in self._fetched:
                return self._fetched.pop(url)
            until, error = self._failed.get(url, (0.0, OSError()))
            if time.monotonic() < until:
                raise error
            if not self._is_fetching:
                threading.Thread(target=self._run, args=(url,), name=FETCH_THREAD_NAME, daemon=True).start()
                self._is_fetching = True
        raise HookBusy("a document of Amazon is being fetched for it")

    def _run(self, url: str) -> None:
        document: bytes | OSError
        try:
            document = self._fetch(url)
        except OSError as error:
            document = error
        with self._lock:
            self._is_fetching = False
            if isinstance(document, OSError):
                _remember(self._failed, url, (time.monotonic() + RETRY_SECONDS, document))
            else:
                _remember(self._fetched, url, document)


class Certificates:
    """The public keys of Amazon's certificates, each fetched once."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._keys: dict[str, tuple[RSAPublicKey, datetime]] = {}

    def key(self, url: str) -> RSAPublicKey:
        """The key of the certificate at the URL. Raises `HookBusy` until it is fetched, `HookRefused` for a document
        that is no valid certificate."""
        cached = self._keys.get(url)
        if cached and cached[1] > now():
            return cached[0]
        try:
            document = self._documents.take(url)
        except OSError as error:
            raise HookBusy(f"the certificate of its signature cannot be fetched: {error}") from error
        key, until = _read_certificate(document)
        _remember(self._keys, url, (key, until))
        return key


def _remember(cache: dict[str, Value], url: str, value: Value) -> None:
    if len(cache) >= MAX_DOCUMENTS:
        cache.clear()
    cache[url] = value


def _read_certificate(document: bytes) -> tuple[RSAPublicKey, datetime]:
    """The key of a certificate that is valid now, and the end of its validity. Raises `HookRefused`."""
    try:
        certificate = x509.load_pem_x509_certificate(document)
        key = certificate.public_key()
    except ValueError:
        raise HookRefused("what its signature names is no certificate") from None
    if not isinstance(key, RSAPublicKey):
        raise HookRefused("the certificate of its signature has no RSA key")
    if not certificate.not_valid_before_utc <= now() <= certificate.not_valid_after_utc:
        raise HookRefused("the certificate of its signature is not valid now")
    return key, certificate.not_valid_after_utc


class Topics:
    """The topics whose messages count."""

    def __init__(self, topics: Collection[str], fetch: Fetch) -> None:
        self._topics = frozenset(topics)
        self._documents = Documents(fetch)
        self._certificates = Certificates(self._documents)

    def check(self, message: Fields) -> None:
        """Raises `HookRefused` unless the message is a genuine one of a topic of ours, and `HookBusy` if that cannot be
        checked now."""
        topic = text_of(message, "TopicArn")
        if topic not in self._topics:
            raise HookRefused("it is of no topic in SES_TOPICS")
        signed = SIGNED_FIELDS.get(text_of(message, "Type"))
        digest = HASH_BY_VERSION.get(text_of(message, "SignatureVersion"))
        if signed is None or digest is None:
            raise HookRefused("its type or the version of its signature is unknown")
        _check_time(text_of(message, "Timestamp"))
        key = self._certificates.key(_certificate_url(topic, text_of(message, "SigningCertURL")))
        text = "".join(f"{name}\n{message[name]}\n" for name in signed if isinstance(message.get(name), str))
        try:
            signature = base64.b64decode(text_of(message, "Signature"), validate=True)
            key.verify(signature, text.encode(), PKCS1v15(), digest())
        except (InvalidSignature, binascii.Error, ValueError):
            raise HookRefused("its signature is wrong") from None

    def confirm(self, message: Fields) -> None:
        """Confirms the subscription that a checked message asks about. Raises `HookBusy` until that is done."""
        topic = text_of(message, "TopicArn")
        query = urlencode({"Action": "ConfirmSubscription", "TopicArn": topic, "Token": text_of(message, "Token")})
        try:
            self._documents.take(f"https://{host_of_topic(topic)}/?{query}")
        except OSError as error:
            # Without its text, which has the token.
            raise HookBusy(f"the subscription cannot be confirmed now: {type(error).__name__}") from None


def _check_time(text: str) -> None:
    try:
        age = now() - datetime.fromisoformat(text)
    except (ValueError, TypeError):
        raise HookRefused("it has no time") from None
    if not -MAX_CLOCK_SKEW <= age <= MAX_AGE:
        raise HookRefused("it is too old, or this machine's clock is wrong")


def _certificate_url(topic: str, url: str) -> str:
    """The URL of the certificate, if it is where Amazon keeps those of the topic's region. Raises `HookRefused`."""
    begin = f"https://{host_of_topic(topic)}/"
    if not url.startswith(begin) or not _CERTIFICATE.fullmatch(url[len(begin) :]):
        raise HookRefused("its certificate is not one of Amazon SNS in the region of the topic")
    return url


SUPPRESSED_SUBTYPES = frozenset({"Suppressed", "OnAccountSuppressionList"})
"""Kinds of bounces and complaints of mails that SES did not try to deliver."""
REJECTED_STATUS = "4.6.0"
"""SES refused the content; the address may be valid."""
MAX_MESSAGE_LENGTH = 256 * 1024
"""Characters; Amazon SNS allows no longer ones."""


class SesHook:
    """The hook of an https subscription of Amazon SNS, with notifications or published events of SES."""

    success = 200

    def __init__(self, topics: Collection[str], fetch: Fetch) -> None:
        self._topics = Topics(topics, fetch)

    @classmethod
    def of(cls, settings: Settings) -> SesHook | None:
        """The hook for the topics in the settings; None without SES_TOPICS."""
        return cls(settings.ses_topics, _fetch) if settings.ses_topics else None

    def read(self, request: HookRequest) -> list[RelayEvent]:
        """The events of a message; one that asks to confirm a subscription is confirmed."""
        (message, *_) = objects_of([request.document()]) or [{}]
        self._topics.check(message)
        topic = text_of(message, "TopicArn")
        match text_of(message, "Type"):
            case "SubscriptionConfirmation":
                self._topics.confirm(message)
                logger.info("subscribed to a topic of Amazon SNS", extra={"topic": topic})
                return []
            case "UnsubscribeConfirmation":
                logger.warning("a topic of Amazon SNS ends its subscription", extra={"topic": topic})
                return []
        return _events(text_of(message, "Message"), text_of(message, "MessageId"))


def _events(text: str, message_id: str) -> list[RelayEvent]:
    try:
        event = orjson.loads(text) if len(text) <= MAX_MESSAGE_LENGTH else None
    except orjson.JSONDecodeError:
        event = None  # such as the text by which Amazon tries out a topic
    if not isinstance(event, dict):
        return []
    mail = fields_of(event, "mail")
    uuid = uuid_in(text_of(fields_of(mail, "commonHeaders"), "messageId"))
    fingerprint = fingerprint_of("ses", message_id, event)
    return [RelayEvent(report, fingerprint, uuid, text_of(mail, "source")) for report in reports_of(event)]


def reports_of(event: Fields) -> list[Report]:
    """The event in the terms of this service; none for one that reports nothing, such as an open."""
    kind = text_of(event, "notificationType") or text_of(event, "eventType")
    match kind:
        case "Bounce":
            return _bounces(fields_of(event, "bounce"))
        case "Complaint":
            return _complaints(fields_of(event, "complaint"))
        case "Delivery":
            return _delivery(fields_of(event, "delivery"))
        case "DeliveryDelay":
            return _delays(fields_of(event, "deliveryDelay"))
        case "Reject":
            reason = one_line(text_of(fields_of(event, "reject"), "reason"))
            return [Report(ReportKind.FAILED, REJECTED_STATUS, f"rejected by SES: {reason}")]
        case "Subscription" if _unsubscribes(fields_of(event, "subscription")):
            return [Report(ReportKind.OPT_OUT, None, "unsubscribed at SES")]
    return []


def _bounces(bounce: Fields) -> list[Report]:
    reports = []
    for recipient in _recipients(bounce, "bouncedRecipients"):
        detail = diagnostic(text_of(recipient, "diagnosticCode"))
        status = _bounce_status(bounce, text_of(recipient, "status"), detail)
        reports.append(Report(ReportKind.FAILED, status, detail, address_of(text_of(recipient, "emailAddress"))))
    return reports


def _bounce_status(bounce: Fields, status: str, detail: str) -> str:
    if text_of(bounce, "bounceSubType") in SUPPRESSED_SUBTYPES:
        return NOT_ATTEMPTED_STATUS
    match text_of(bounce, "bounceType"):
        case "Permanent":
            return hard_status(status, detail)
        case "Transient":
            return soft_status(status, detail)
    # Undetermined: without a code it is no reason to block an address.
    code = status_in(status) or status_in(detail)
    return failure_status(code, detail) if code else soft_status(status, detail)


def _complaints(complaint: Fields) -> list[Report]:
    addresses = [
        address_of(text_of(recipient, "emailAddress")) for recipient in _recipients(complaint, "complainedRecipients")
    ]
    if text_of(complaint, "complaintSubType") in SUPPRESSED_SUBTYPES:
        detail = "not sent by SES: the address has complained before"
        return [Report(ReportKind.FAILED, NOT_ATTEMPTED_STATUS, detail, about) for about in addresses]
    type_ = text_of(complaint, "complaintFeedbackType") or "abuse"
    kind = KIND_BY_FEEDBACK_TYPE.get(type_.lower())
    detail = f"{one_line(type_)} reported at SES"
    return [Report(kind, None, detail, about) for about in addresses] if kind else []


def _delivery(delivery: Fields) -> list[Report]:
    detail = one_line(text_of(delivery, "smtpResponse"))
    addresses = delivery.get("recipients")
    about = (
        frozenset(address.lower() for address in addresses if isinstance(address, str))
        if isinstance(addresses, list)
        else ()
    )
    return [Report(ReportKind.ARRIVED, status_in(detail), detail, frozenset(about))]


def _delays(delay: Fields) -> list[Report]:
    return [
        Report(
            ReportKind.DELAYED,
            status_in(text_of(recipient, "status")),
            diagnostic(text_of(recipient, "diagnosticCode")),
            address_of(text_of(recipient, "emailAddress")),
        )
        for recipient in _recipients(delay, "delayedRecipients")
    ]


def _recipients(fields: Fields, name: str) -> list[Fields]:
    recipients = fields.get(name)
    return objects_of(recipients) if isinstance(recipients, list) else []


def _unsubscribes(subscription: Fields) -> bool:
    return fields_of(subscription, "newTopicPreferences").get("unsubscribeAll") is True


def _fetch(url: str) -> bytes:
    """Through the SSRF guard, whatever webhooks may reach."""
    return fetch(url, trusted_roots())
