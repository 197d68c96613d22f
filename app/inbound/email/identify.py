"""The recipient that a report is about: only a signed address names one (VERP). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from email.message import Message

from app.inbound.email.fields import addresses_in
from app.inbound.email.report import Report
from app.secret_keys import SecretKeys
from app.tracking.return_path import is_signed_form, recipient_of_address

RECIPIENT_FIELDS = ("X-Original-To", "Delivered-To", "Envelope-To", "To")
"""Fields in which mail servers, and authors of reports, write the recipient of the envelope."""


@dataclass(frozen=True, slots=True)
class SignedRecipient:
    """The recipient that a signed address names, and the purpose of the address."""

    recipient_id: int
    purpose: str


def envelope_of(message: Message, envelope: Sequence[str]) -> Sequence[str]:
    """The recipients of the message: those that the mail server names, else those of its fields."""
    return envelope or addresses_in(message, RECIPIENT_FIELDS)


def is_addressed_to_us(envelope: Sequence[str]) -> bool:
    """Whether any address has our format, genuine or not."""
    return any(is_signed_form(address) for address in envelope)


def find_signed_recipient(secret_keys: SecretKeys, addresses: Iterable[str]) -> SignedRecipient | None:
    """The recipient of the first genuine signed address; None if there is none."""
    for address in addresses:
        found = recipient_of_address(secret_keys, address)
        if found:
            purpose, recipient_id = found
            return SignedRecipient(recipient_id, purpose)
    return None


def find_original_sender(secret_keys: SecretKeys, reports: Iterable[Report]) -> SignedRecipient | None:
    """A complaint may be sent to the operator's address that a provider knows. It then counts if it contains the signed
    return path of the original message."""
    return find_signed_recipient(secret_keys, (sender for report in reports for sender in report.original_senders))
