"""Events of relays in the forms that they document, about a mail of ours."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from app.clock import now
from app.inbound.hooks.ses import SIGNED_FIELDS

UUID = "6f1d2c3b-4a59-4e68-9f70-8192a3b4c5d6"
REPLY = "550 5.1.1 no such user"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:mail-events"
HOST = "https://sns.eu-west-1.amazonaws.com/"
CERTIFICATE = f"{HOST}SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"


@dataclass(frozen=True)
class Mail:
    """What the events of relays know of a mail."""

    uuid: str = UUID
    email: str = "ann@example.com"
    return_path: str = ""

    @property
    def message_id(self) -> str:
        return f"{self.uuid}@acme.example"


def postmark(mail: Mail, record_type: str = "Bounce", **values: Any) -> dict[str, Any]:
    """A request of Postmark."""
    shared = {
        "RecordType": record_type,
        "ServerID": 23,
        "MessageStream": "outbound",
        "MessageID": "00000000-1111-4222-8333-444444444444",
        "Tag": "",
        "Metadata": {"tmsuuid": mail.uuid},
    }
    fields_by_type: dict[str, Any] = {
        "Bounce": {
            "ID": 692560173,
            "Type": "HardBounce",
            "TypeCode": 1,
            "Name": "Hard bounce",
            "Description": "The server was unable to deliver your message.",
            "Details": f"smtp;{REPLY}",
            "Email": mail.email,
            "From": "hello@acme.example",
            "BouncedAt": "2026-01-31T16:33:54.90Z",
            "DumpAvailable": True,
            "Inactive": True,
            "CanActivate": True,
            "Subject": "Hello",
        },
        "SpamComplaint": {
            "ID": 42,
            "Type": "SpamComplaint",
            "TypeCode": 512,
            "Email": mail.email,
            "BouncedAt": "2026-01-31T16:33:54.90Z",
        },
        "Delivery": {"Recipient": mail.email, "DeliveredAt": "2026-01-31T16:33:54Z", "Details": "250 2.0.0 ok"},
        "SubscriptionChange": {
            "Recipient": mail.email,
            "ChangedAt": "2026-01-31T16:33:54Z",
            "Origin": "Recipient",
            "SuppressSending": True,
            "SuppressionReason": "ManualSuppression",
        },
        "Open": {"Recipient": mail.email, "ReceivedAt": "2026-01-31T16:33:54Z", "FirstOpen": True},
    }
    return {**shared, **fields_by_type[record_type], **values}


def mailgun_event(mail: Mail, event: str = "failed", **values: Any) -> dict[str, Any]:
    """The `event-data` of a request of Mailgun."""
    shared = {
        "event": event,
        "id": f"{event}-G9Bn5sl1TC6nu79C8C0bwg",
        "timestamp": 1769853600.653,
        "recipient": mail.email,
        "recipient-domain": "example.com",
        "envelope": {"sender": "bounce+abc@mg.acme.example", "targets": mail.email, "transport": "smtp"},
        "message": {"headers": {"message-id": mail.message_id, "to": mail.email, "subject": "Hello"}, "size": 111},
        "user-variables": {"tmsuuid": mail.uuid},
        "tags": [],
        "flags": {"is-test-mode": False},
    }
    fields_by_event: dict[str, Any] = {
        "failed": {
            "severity": "permanent",
            "reason": "bounce",
            "delivery-status": {"code": 550, "message": REPLY, "enhanced-code": "5.1.1", "attempt-no": 1},
        },
        "delivered": {"delivery-status": {"code": 250, "message": "OK", "tls": True, "attempt-no": 1}},
        "rejected": {"reject": {"reason": "Sandbox subdomains are for test purposes only.", "description": ""}},
    }
    return {**shared, **fields_by_event.get(event, {}), **values}


def mailgun(
    key: str, event: dict[str, Any], *, seconds: int | None = None, token: str = "a1" * 25, signature: str | None = None
) -> dict[str, Any]:
    """A request of Mailgun, signed with the key."""
    timestamp = str(seconds if seconds is not None else int(now().timestamp()))
    signed = hmac.new(key.encode(), f"{timestamp}{token}".encode(), hashlib.sha256).hexdigest()
    return {
        "signature": {"timestamp": timestamp, "token": token, "signature": signature or signed},
        "event-data": event,
    }


def sparkpost(mail: Mail, type_: str = "bounce", **values: Any) -> dict[str, Any]:
    """One element of a batch of SparkPost."""
    member = "unsubscribe_event" if type_.endswith("_unsubscribe") else "message_event"
    shared = {
        "type": type_,
        "event_id": f"{type_}-92356927693813856",
        "message_id": "000443ee14578172be22",
        "timestamp": "1769853600",
        "rcpt_to": mail.email,
        "raw_rcpt_to": mail.email,
        "rcpt_meta": {"tmsuuid": mail.uuid},
        "rcpt_tags": [],
        "msg_from": "msprvs1=1@bounces.sparkpost.example",
        "friendly_from": "hello@acme.example",
        "subaccount_id": "101",
    }
    failure = {"bounce_class": "10", "error_code": "550", "raw_reason": REPLY, "reason": "550 5.1.1 no such ..."}
    fields_by_type: dict[str, Any] = {
        "bounce": failure,
        "out_of_band": failure,
        "delay": {"bounce_class": "21", "error_code": "454", "raw_reason": "454 4.4.4 [internal] no MX"},
        "delivery": {"queue_time": "12"},
        "spam_complaint": {"fbtype": "abuse", "report_by": "mailbox.example"},
    }
    return {"msys": {member: {**shared, **fields_by_type.get(type_, {}), **values}}}


def ses(mail: Mail, kind: str = "Bounce", *, published: bool = False, **values: Any) -> dict[str, Any]:
    """An event of SES: a notification, or one that a configuration set publishes."""
    fields_by_kind: dict[str, Any] = {
        "Bounce": {
            "bounceType": "Permanent",
            "bounceSubType": "General",
            "bouncedRecipients": [
                {
                    "emailAddress": mail.email,
                    "action": "failed",
                    "status": "5.1.1",
                    "diagnosticCode": f"smtp; {REPLY}",
                }
            ],
            "timestamp": "2026-01-31T16:33:54.000Z",
            "feedbackId": "0102018f-000000",
            "reportingMTA": "dns; a1-23.smtp-out.eu-west-1.amazonses.com",
        },
        "Complaint": {
            "complainedRecipients": [{"emailAddress": mail.email}],
            "complaintFeedbackType": "abuse",
            "complaintSubType": None,
            "userAgent": "AnyCompany Feedback Loop (V0.01)",
        },
        "Delivery": {
            "recipients": [mail.email],
            "smtpResponse": "250 2.6.0 Message received",
            "processingTimeMillis": 546,
        },
        "DeliveryDelay": {
            "delayType": "TransientCommunicationFailure",
            "delayedRecipients": [
                {"emailAddress": mail.email, "status": "4.4.1", "diagnosticCode": "smtp; 421 4.4.1 Unable to connect"}
            ],
        },
        "Reject": {"reason": "Bad content"},
        "Subscription": {"contactList": "all", "newTopicPreferences": {"unsubscribeAll": True}},
        "Open": {"ipAddress": "192.0.2.1", "userAgent": "Mozilla/5.0"},
    }
    member = kind[0].lower() + kind[1:]
    return {
        "eventType" if published else "notificationType": kind,
        member: {**fields_by_kind[kind], **values},
        "mail": {
            "timestamp": "2026-01-31T16:33:50.000Z",
            "source": mail.return_path,
            "messageId": "0102018f-aaaa-000000",
            "destination": [mail.email],
        },
    }


@dataclass
class Amazon:
    """Signs messages as Amazon SNS does, and serves its certificate."""

    key: RSAPrivateKey = field(default_factory=lambda: generate_private_key(65537, 2048))
    days: int = 1
    """The number of days for which the certificate is valid."""
    fetched: list[str] = field(default_factory=list)
    away: bool = False

    def fetch(self, url: str) -> bytes:
        """What the service fetches."""
        self.fetched.append(url)
        if self.away:
            raise OSError("no route")
        return self._certificate() if url.endswith(".pem") else b"<ConfirmSubscriptionResponse/>"

    def message(self, text: str, type_: str = "Notification", version: str = "2", **values: Any) -> dict[str, Any]:
        """A signed message with this text."""
        message: dict[str, Any] = {
            "Type": type_,
            "MessageId": "da41e39f-ea4d-435a-b922-c6aae3915ebe",
            "TopicArn": TOPIC,
            "Message": text,
            "Timestamp": f"{now():%Y-%m-%dT%H:%M:%S}.000Z",
            "SignatureVersion": version,
            "SigningCertURL": CERTIFICATE,
            **values,
        }
        signed = "".join(f"{name}\n{message[name]}\n" for name in SIGNED_FIELDS[type_] if name in message)
        digest = SHA1() if version == "1" else SHA256()
        message["Signature"] = base64.b64encode(self.key.sign(signed.encode(), PKCS1v15(), digest)).decode()
        return message

    def event(self, event: dict[str, Any], **values: Any) -> dict[str, Any]:
        """A message with an event of SES."""
        return self.message(json.dumps(event), **values)

    def _certificate(self) -> bytes:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(self.key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now() - timedelta(days=30))
        return (
            builder.not_valid_after(now() + timedelta(days=self.days))
            .sign(self.key, SHA256())
            .public_bytes(Encoding.PEM)
        )
