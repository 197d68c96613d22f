"""Whom a send comes from: an address of a configured domain, or an approved sender of text messages.

(docs/sending.md#senders)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, case, select

from app.addresses import domain_of, is_valid_email
from app.db.models import Domain, SmsSender
from app.sends.accept.check import SendCheck

VIRTUAL_NUMBER = "virtual_number"


@dataclass(frozen=True, slots=True)
class Sender:
    """Whom a send comes from. The name is that of an email's sender; `virtual` is a number that can be replied to."""

    address: str
    name: str | None = None
    virtual: bool = False


def find_email_sender(check: SendCheck) -> Sender | None:
    """The sender of an email: the one asked for, the message's, or the account's default one."""
    sender = _requested_or_default(check)
    if sender is None:
        detail = "from_address: neither the request nor the message has one, and the account has no default sender."
        check.errors.add("invalid_from_address", field="from_address", detail=detail)
    elif not is_valid_email(sender.address):
        detail = f"from_address: {sender.address} is not an email address."
        check.errors.add("invalid_from_address", field="from_address", detail=detail)
        sender = None
    _check_domains(check, sender)
    return sender


def _requested_or_default(check: SendCheck) -> Sender | None:
    """The default name goes with the default address only."""
    content, account = check.content, check.references.account
    if content.from_address is not None:
        return Sender(content.from_address, content.from_name)
    if account.default_from_address:
        return Sender(account.default_from_address, content.from_name or account.default_from_name)
    return None


def _check_domains(check: SendCheck, sender: Sender | None) -> None:
    """The domains themselves must be configured, not just a parent (docs/sending.md#senders)."""
    addresses = {"from_address": sender and sender.address, "bcc_address": check.draft.bcc_address}
    domains = {field: domain_of(address) for field, address in addresses.items() if address}
    # One that the request does not name, of the account's default sender, has not been looked at yet.
    configured = check.references.configured
    configured = {**configured, **_verified_domains(check, set(domains.values()) - configured.keys())}
    unconfigured = {domain for domain in domains.values() if not configured[domain]}
    added = _added_domains(check, unconfigured)
    for field, domain in domains.items():
        if domain in unconfigured:
            check.errors.add(
                f"invalid_{field}_domain", field=field, detail=_not_configured(field, domain, domain in added)
            )


def _not_configured(field: str, domain: str, is_added: bool) -> str:
    if is_added:
        return (
            f"{field}: the domain {domain} is added to the account, but not verified yet: its DNS records have to be "
            "published and looked up (`flask domains verify`)."
        )
    return f"{field}: the domain {domain} is not configured in the account."


def _added_domains(check: SendCheck, names: set[str]) -> set[str]:
    """Those that the account has, verified or not."""
    if not names:
        return set()
    statement = select(Domain.name).where(Domain.account_id == check.account_id, Domain.name.in_(sorted(names)))
    return set(check.rows(statement).scalars())


def _verified_domains(check: SendCheck, names: set[str]) -> dict[str, bool]:
    if not names:
        return {}
    statement = select(Domain.name).where(
        Domain.account_id == check.account_id, Domain.name.in_(sorted(names)), Domain.verified_time.is_not(None)
    )
    found = set(check.rows(statement).scalars())
    return {name: name in found for name in names}


def find_sms_sender(check: SendCheck) -> Sender | None:
    """The sender of a text: the one asked for, the message's, the list's number, or the only one of the account."""
    row = _find_approved(check)
    if row is None:
        check.errors.add(
            "invalid_from_address", field="from_address", detail=_missing_detail(check.content.from_address)
        )
        return None
    if row.list_id is not None and row.list_id != check.draft.list_id:
        detail = f"from_address: {row.address} is assigned to the list {row.list_id} and sends to no other."
        check.errors.add("from_address_invalid_list", field="from_address", detail=detail)
    return Sender(row.address, virtual=row.kind == VIRTUAL_NUMBER)


def _missing_detail(address: str | None) -> str:
    if address is not None:
        return f"from_address: {address} is not an approved sender of this account."
    return "from_address is needed: the list has no number of its own and the account has not exactly one sender."


def _find_approved(check: SendCheck) -> Row[*tuple[Any, ...]] | None:
    """The approved sender with that address; without one the list's number, else the account's only sender."""
    address, list_id = check.content.from_address, check.draft.list_id
    senders = select(SmsSender.address, SmsSender.kind, SmsSender.list_id)
    senders = senders.where(SmsSender.account_id == check.account_id)
    if address is not None:
        return check.rows(senders.where(SmsSender.address == address)).one_or_none()
    list_sender_first = senders.order_by(case((SmsSender.list_id == list_id, 0), else_=1), SmsSender.id)
    found = check.rows(list_sender_first.limit(2)).all()
    assigned_to_list = bool(found) and list_id is not None and found[0].list_id == list_id
    return found[0] if assigned_to_list or len(found) == 1 else None
