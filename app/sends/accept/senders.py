"""The sender of a send: an address of a configured domain, or an approved sms sender (docs/sending.md#senders)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, case, select

from app.addresses import domain_of, is_valid_email
from app.db.models import Domain, SmsSender
from app.distribution import COMMAND_LINE
from app.ids import shown_id
from app.sends.accept.check import SendCheck

VIRTUAL_NUMBER = "virtual_number"


@dataclass(frozen=True, slots=True)
class Sender:
    """`name` is for emails only; a `virtual` number can be replied to."""

    address: str
    name: str | None = None
    virtual: bool = False


def find_email_sender(check: SendCheck) -> Sender | None:
    """The sender in the request, else that of the message, else the default sender of the account."""
    sender = _requested_or_default(check)
    if sender is None:
        missing = "neither the request nor the message has one, and the account has no default sender"
        detail = f"from_address: {missing}. Give an address of a configured domain."
        check.errors.add("invalid_from_address", field="from_address", detail=detail)
    elif not is_valid_email(sender.address):
        detail = f"from_address: {sender.address} is not an email address."
        check.errors.add("invalid_from_address", field="from_address", detail=detail)
        sender = None
    _check_domains(check, sender)
    return sender


def _requested_or_default(check: SendCheck) -> Sender | None:
    """The default name is used with the default address only."""
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
    # The domain of the default sender is not in the request, so it has not been looked up yet.
    known = check.references.configured
    configured = {**known, **_verified_domains(check, set(domains.values()) - known.keys())}
    unconfigured = {domain for domain in domains.values() if not configured[domain]}
    added = _added_domains(check, unconfigured)
    for field, domain in domains.items():
        if domain in unconfigured:
            check.errors.add(
                f"invalid_{field}_domain", field=field, detail=_unconfigured_detail(field, domain, domain in added)
            )


def _unconfigured_detail(field: str, domain: str, is_added: bool) -> str:
    if is_added:
        return (
            f"{field}: the domain {domain} is added to the account, but not verified yet: its DNS records have to be "
            f"published, and looked up with `{COMMAND_LINE} domains verify {domain}` or in the console, under Domains."
        )
    return (
        f"{field}: the domain {domain} is not configured in the account. Send from one that is, or ask the operator to "
        f"add it, with `{COMMAND_LINE} domains add {domain}` or in the console, under Domains."
    )


def _added_domains(check: SendCheck, names: set[str]) -> set[str]:
    """Those of the names that are domains of the account, verified or not."""
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
    verified = set(check.rows(statement).scalars())
    return {name: name in verified for name in names}


def find_sms_sender(check: SendCheck) -> Sender | None:
    """The sender in the request, else that of the message, the number of the list, or the account's only sender."""
    row = _find_approved(check)
    if row is None:
        check.errors.add(
            "invalid_from_address", field="from_address", detail=_missing_detail(check.content.from_address)
        )
        return None
    if row.list_id is not None and row.list_id != check.draft.list_id:
        list_id = shown_id(row.list_id)
        detail = f"from_address: {row.address} is assigned to the list {list_id} and sends to no other."
        check.errors.add("from_address_invalid_list", field="from_address", detail=detail)
    return Sender(row.address, virtual=row.kind == VIRTUAL_NUMBER)


def _missing_detail(address: str | None) -> str:
    if address is not None:
        approving = f"or ask the operator to approve it, with `{COMMAND_LINE} senders create`"
        return f"from_address: {address} is not an approved sender of this account. Send from one that is, {approving}."
    missing = "the list has no number of its own, and the account does not have exactly one sender"
    return f"from_address is required: {missing}. Give an approved one."


def _find_approved(check: SendCheck) -> Row[*tuple[Any, ...]] | None:
    """The approved sender with the requested address, else the number of the list, else the account's only sender."""
    address, list_id = check.content.from_address, check.draft.list_id
    senders = select(SmsSender.address, SmsSender.kind, SmsSender.list_id)
    senders = senders.where(SmsSender.account_id == check.account_id)
    if address is not None:
        return check.rows(senders.where(SmsSender.address == address)).one_or_none()
    list_sender_first = senders.order_by(case((SmsSender.list_id == list_id, 0), else_=1), SmsSender.id)
    rows = check.rows(list_sender_first.limit(2)).all()
    assigned_to_list = bool(rows) and list_id is not None and rows[0].list_id == list_id
    return rows[0] if assigned_to_list or len(rows) == 1 else None
