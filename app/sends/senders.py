"""Whom a send comes from: an address of a configured domain, or an approved sender of text messages.

(specification: Transactional send, rule 8; Other behaviours, 1 and 2; decisions: 6)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Row, case, select

from app.addresses import domain_of, is_valid_email
from app.db.database import Transaction
from app.db.models import Account, Domain, SmsSender
from app.errors import ErrorCollector
from app.sends.content import Content
from app.sends.draft import SendDraft

VIRTUAL_NUMBER = "virtual_number"


@dataclass(frozen=True, slots=True)
class AccountSender:
    """What an account says of its sending."""

    owner_confirmed: bool
    default_from_name: str | None
    default_from_address: str | None


@dataclass(frozen=True, slots=True)
class Sender:
    """Whom a send comes from. The name is that of an email's sender; `virtual` is a number that can be replied to."""

    address: str
    name: str | None = None
    virtual: bool = False


def account_sender(transaction: Transaction, account_id: int, errors: ErrorCollector) -> AccountSender:
    """The account's part; its owner must have confirmed their address (specification: Other behaviours, 1)."""
    columns = [getattr(Account, name) for name in AccountSender.__slots__]
    row = transaction.connection().execute(select(*columns).where(Account.id == account_id)).one()
    account = AccountSender(*row)
    if not account.owner_confirmed:
        errors.add("account_owner_unverified")
    return account


def email_sender(
    transaction: Transaction,
    account_id: int,
    account: AccountSender,
    draft: SendDraft,
    content: Content,
    errors: ErrorCollector,
) -> Sender | None:
    """The sender of an email: the one asked for, the message's, or the account's default one."""
    sender = _named_or_default(account, content)
    if sender is None:
        detail = "from_address: neither the request nor the message has one, and the account has no default sender."
        errors.add("invalid_from_address", field="from_address", detail=detail)
    elif not is_valid_email(sender.address):
        detail = f"from_address: {sender.address} is not an email address."
        errors.add("invalid_from_address", field="from_address", detail=detail)
        sender = None
    _check_domains(transaction, account_id, sender, draft.bcc_address, errors)
    return sender


def _named_or_default(account: AccountSender, content: Content) -> Sender | None:
    """The default name goes with the default address only."""
    if content.from_address is not None:
        return Sender(content.from_address, content.from_name)
    if account.default_from_address:
        return Sender(account.default_from_address, content.from_name or account.default_from_name)
    return None


def _check_domains(
    transaction: Transaction, account_id: int, sender: Sender | None, bcc: str | None, errors: ErrorCollector
) -> None:
    """Both domains are configured in the account, themselves and not just a parent (specification: Other behaviours)."""
    domains = {}
    if sender is not None:
        domains["from_address"] = domain_of(sender.address)
    if bcc is not None:
        domains["bcc_address"] = domain_of(bcc)
    configured = _configured(transaction, account_id, set(domains.values()))
    for field, domain in domains.items():
        if domain not in configured:
            detail = f"{field}: the domain {domain} is not configured in the account."
            errors.add(f"invalid_{field}_domain", field=field, detail=detail)


def _configured(transaction: Transaction, account_id: int, names: set[str]) -> set[str]:
    if not names:
        return set()
    statement = select(Domain.name).where(
        Domain.account_id == account_id, Domain.name.in_(sorted(names)), Domain.verified_time.is_not(None)
    )
    return set(transaction.connection().execute(statement).scalars())


def sms_sender(
    transaction: Transaction, account_id: int, draft: SendDraft, content: Content, errors: ErrorCollector
) -> Sender | None:
    """The sender of a text: the one asked for, the message's, the list's number, or the only one of the account."""
    row = _approved(transaction, account_id, content.from_address, draft.list_id)
    if row is None:
        errors.add("invalid_from_address", field="from_address", detail=_approval_hint(content.from_address))
        return None
    if row.list_id is not None and row.list_id != draft.list_id:
        detail = f"from_address: {row.address} is assigned to the list {row.list_id} and sends to no other."
        errors.add("from_address_invalid_list", field="from_address", detail=detail)
    return Sender(row.address, virtual=row.kind == VIRTUAL_NUMBER)


def _approval_hint(address: str | None) -> str:
    if address is not None:
        return f"from_address: {address} is not an approved sender of this account."
    return "from_address is needed: the list has no number of its own and the account has not exactly one sender."


def _approved(
    transaction: Transaction, account_id: int, address: str | None, list_id: int | None
) -> Row[tuple[str, str, int | None]] | None:
    """The approved sender with that address; without one the list's number, else the account's only sender."""
    statement = select(SmsSender.address, SmsSender.kind, SmsSender.list_id).where(SmsSender.account_id == account_id)
    connection = transaction.connection()
    if address is not None:
        return connection.execute(statement.where(SmsSender.address == address)).one_or_none()
    of_the_list_first = statement.order_by(case((SmsSender.list_id == list_id, 0), else_=1), SmsSender.id)
    found: Sequence[Row[tuple[str, str, int | None]]] = connection.execute(of_the_list_first.limit(2)).all()
    of_the_list = bool(found) and list_id is not None and found[0].list_id == list_id
    return found[0] if of_the_list or len(found) == 1 else None
