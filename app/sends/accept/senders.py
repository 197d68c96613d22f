"""Whom a send comes from: an address of a configured domain, or an approved sender of text messages.

(specification: Transactional send, rule 8; Other behaviours, 1 and 2; decisions: 6)
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


def email_sender(inquiry: SendCheck) -> Sender | None:
    """The sender of an email: the one asked for, the message's, or the account's default one."""
    sender = _named_or_default(inquiry)
    if sender is None:
        detail = "from_address: neither the request nor the message has one, and the account has no default sender."
        inquiry.errors.add("invalid_from_address", field="from_address", detail=detail)
    elif not is_valid_email(sender.address):
        detail = f"from_address: {sender.address} is not an email address."
        inquiry.errors.add("invalid_from_address", field="from_address", detail=detail)
        sender = None
    _check_domains(inquiry, sender)
    return sender


def _named_or_default(inquiry: SendCheck) -> Sender | None:
    """The default name goes with the default address only."""
    content, account = inquiry.content, inquiry.standing.account
    if content.from_address is not None:
        return Sender(content.from_address, content.from_name)
    if account.default_from_address:
        return Sender(account.default_from_address, content.from_name or account.default_from_name)
    return None


def _check_domains(inquiry: SendCheck, sender: Sender | None) -> None:
    """The domains themselves must be configured, not just a parent (specification: Other behaviours, 2)."""
    addresses = {"from_address": sender and sender.address, "bcc_address": inquiry.draft.bcc_address}
    domains = {field: domain_of(address) for field, address in addresses.items() if address}
    # One that the request does not name, of the account's default sender, has not been looked at yet.
    configured = inquiry.standing.configured
    configured = {**configured, **_configured(inquiry, set(domains.values()) - configured.keys())}
    lacking = {domain for domain in domains.values() if not configured[domain]}
    added = _added(inquiry, lacking)
    for field, domain in domains.items():
        if domain in lacking:
            inquiry.errors.add(f"invalid_{field}_domain", field=field, detail=_lack(field, domain, domain in added))


def _lack(field: str, domain: str, is_added: bool) -> str:
    if is_added:
        return (
            f"{field}: the domain {domain} is added to the account, but not verified yet: its DNS records have to be "
            "published and looked up (`flask domains verify`)."
        )
    return f"{field}: the domain {domain} is not configured in the account."


def _added(inquiry: SendCheck, names: set[str]) -> set[str]:
    """Those that the account has, verified or not."""
    if not names:
        return set()
    statement = select(Domain.name).where(Domain.account_id == inquiry.account_id, Domain.name.in_(sorted(names)))
    return set(inquiry.rows(statement).scalars())


def _configured(inquiry: SendCheck, names: set[str]) -> dict[str, bool]:
    if not names:
        return {}
    statement = select(Domain.name).where(
        Domain.account_id == inquiry.account_id, Domain.name.in_(sorted(names)), Domain.verified_time.is_not(None)
    )
    found = set(inquiry.rows(statement).scalars())
    return {name: name in found for name in names}


def sms_sender(inquiry: SendCheck) -> Sender | None:
    """The sender of a text: the one asked for, the message's, the list's number, or the only one of the account."""
    row = _approved(inquiry)
    if row is None:
        inquiry.errors.add("invalid_from_address", field="from_address", detail=_hint(inquiry.content.from_address))
        return None
    if row.list_id is not None and row.list_id != inquiry.draft.list_id:
        detail = f"from_address: {row.address} is assigned to the list {row.list_id} and sends to no other."
        inquiry.errors.add("from_address_invalid_list", field="from_address", detail=detail)
    return Sender(row.address, virtual=row.kind == VIRTUAL_NUMBER)


def _hint(address: str | None) -> str:
    if address is not None:
        return f"from_address: {address} is not an approved sender of this account."
    return "from_address is needed: the list has no number of its own and the account has not exactly one sender."


def _approved(inquiry: SendCheck) -> Row[*tuple[Any, ...]] | None:
    """The approved sender with that address; without one the list's number, else the account's only sender."""
    address, list_id = inquiry.content.from_address, inquiry.draft.list_id
    senders = select(SmsSender.address, SmsSender.kind, SmsSender.list_id)
    senders = senders.where(SmsSender.account_id == inquiry.account_id)
    if address is not None:
        return inquiry.rows(senders.where(SmsSender.address == address)).one_or_none()
    of_the_list_first = senders.order_by(case((SmsSender.list_id == list_id, 0), else_=1), SmsSender.id)
    found = inquiry.rows(of_the_list_first.limit(2)).all()
    is_of_the_list = bool(found) and list_id is not None and found[0].list_id == list_id
    return found[0] if is_of_the_list or len(found) == 1 else None
