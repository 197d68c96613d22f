"""Messages of Amazon SNS: checking their signatures, and confirming a subscription (docs/inbound.md#amazon-ses).

Anybody can create a topic and have Amazon sign its messages, so a message counts only if its topic is one of ours. The
certificate comes from the host of Amazon SNS in the topic's region, under the name that Amazon gives such files. No URL
of a message is followed: that of a confirmation is made of its token.
"""

from __future__ import annotations

import base64
import binascii
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import TypeVar
from urllib.parse import urlencode

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256

from app.clock import now
from app.inbound.hooks.base import HookBusy, HookRefused
from app.inbound.hooks.values import Fields, text_of

Value = TypeVar("Value")
Fetch = Callable[[str], bytes]
"""Fetches a document; raises `OSError`."""

SIGNED: Mapping[str, tuple[str, ...]] = {
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    "SubscriptionConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
    "UnsubscribeConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
}
"""Type of a message -> the members that its signature covers, in their order."""
HASHES: Mapping[str, type[SHA1 | SHA256]] = {"1": SHA1, "2": SHA256}
LONGEST_AGE = timedelta(hours=12)
"""Amazon retries for an hour unless the topic says otherwise."""
LARGEST_SKEW = timedelta(minutes=5)
MAX_DOCUMENTS = 16
RETRY_SECONDS = 30.0
"""Seconds for which a document that cannot be fetched is not tried again."""
FETCHING = "document-of-amazon"
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
                self._is_fetching = True
                threading.Thread(target=self._run, args=(url,), name=FETCHING, daemon=True).start()
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
        self._known: dict[str, tuple[RSAPublicKey, datetime]] = {}

    def key(self, url: str) -> RSAPublicKey:
        """The key of the certificate at the URL. Raises `HookBusy` until it is fetched, `HookRefused` for a document
        that is no valid certificate."""
        known = self._known.get(url)
        if known and known[1] > now():
            return known[0]
        try:
            document = self._documents.take(url)
        except OSError as error:
            raise HookBusy(f"the certificate of its signature cannot be fetched: {error}") from error
        key, until = _read_certificate(document)
        _remember(self._known, url, (key, until))
        return key


def _remember(known: dict[str, Value], url: str, value: Value) -> None:
    if len(known) >= MAX_DOCUMENTS:
        known.clear()
    known[url] = value


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
        signed = SIGNED.get(text_of(message, "Type"))
        digest = HASHES.get(text_of(message, "SignatureVersion"))
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
    if not -LARGEST_SKEW <= age <= LONGEST_AGE:
        raise HookRefused("it is too old, or this machine's clock is wrong")


def _certificate_url(topic: str, url: str) -> str:
    """The URL of the certificate, if it is where Amazon keeps those of the topic's region. Raises `HookRefused`."""
    begin = f"https://{host_of_topic(topic)}/"
    if not url.startswith(begin) or not _CERTIFICATE.fullmatch(url[len(begin) :]):
        raise HookRefused("its certificate is not one of Amazon SNS in the region of the topic")
    return url
