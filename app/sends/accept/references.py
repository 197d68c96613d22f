"""What a send refers to: the account's settings, the group, the domains and the list by one statement, and in the same
round trip the contacts of the recipients.

A statement each costs 0.1 ms of processor time and a round trip, together a third of accepting a send to one recipient.
The statements are built once, because building one costs twice as much as executing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, String, and_, bindparam, exists, select
from sqlalchemy.orm import Session

from app.addresses import domain_of
from app.db.models import Account, Domain, Group, List
from app.db.prepared import PreparedStatement, read_together
from app.ids import BIGGEST
from app.lists.fields import ListSpec
from app.lists.find import LIST_WITH_FIELDS_COLUMNS, list_of
from app.sends.accept.content import Content
from app.sends.accept.draft import MessageType, Priority, SendDraft
from app.sends.accept.named_contacts import NamedContacts, contact_reads


@dataclass(frozen=True, slots=True)
class SendingAccount:
    """The settings of an account that concern sending."""

    owner_confirmed: bool
    default_from_name: str | None
    default_from_address: str | None
    track_opens: bool
    track_clicks: bool
    email_priority: Priority
    sms_priority: Priority
    is_test: bool
    """Whether it is a test account."""

    def priority(self, type_: MessageType) -> Priority:
        """The priority of sends of the type that have none."""
        return self.sms_priority if type_ == "sms" else self.email_priority


@dataclass(frozen=True, slots=True)
class ExistingGroup:
    """A group of the account, by the id or the name in the request."""

    id: int
    type: str
    name: str


@dataclass(frozen=True, slots=True)
class SendReferences:
    """`configured` maps each domain in the request to whether it is a verified domain of the account. `contacts` are
    those of the list that the recipients name."""

    account: SendingAccount
    group: ExistingGroup | None
    configured: Mapping[str, bool]
    contact_list: ListSpec | None
    contacts: NamedContacts


def find_references(session: Session, account_id: int, draft: SendDraft, content: Content) -> SendReferences:
    domains = [_domain(draft, address) for address in (content.from_address, draft.bcc_address)]
    values = {
        "account_id": account_id,
        "list_id": None if draft.list_id is None else min(draft.list_id, BIGGEST),
        "group": draft.group_id if draft.group_id is not None else draft.group_name,
        "from_domain": domains[0],
        "bcc_domain": domains[1],
    }
    statement = BY_GROUP_ID if draft.group_id is not None else BY_GROUP_NAME
    reads = contact_reads(account_id, draft)
    (row,), *found = read_together(session, (statement, values), *reads.values())
    configured = dict(zip(domains, (row.from_configured, row.bcc_configured), strict=True))
    return SendReferences(
        SendingAccount(*(getattr(row, name) for name in SendingAccount.__slots__)),
        None if row.group_id is None else ExistingGroup(row.group_id, row.group_type, row.group_name),
        {domain: bool(verified) for domain, verified in configured.items() if domain is not None},
        None if row.list_id is None else list_of(row),
        NamedContacts.of(draft, dict(zip(reads, found, strict=True))),
    )


def _domain(draft: SendDraft, address: str | None) -> str | None:
    return domain_of(address) if address and draft.type == "email" else None


def _is_configured(parameter: str) -> ColumnElement[bool]:
    """The domain itself must be verified, not just a parent (docs/sending.md#senders)."""
    name = bindparam(parameter, type_=String)
    return exists().where(Domain.account_id == Account.id, Domain.name == name, Domain.verified_time.is_not(None))


_OF_ACCOUNT: dict[str, Any] = {
    **{name: getattr(Account, name) for name in SendingAccount.__slots__ if name != "is_test"},
    "is_test": Account.test_of.is_not(None).label("is_test"),
}


def _statement(group_condition: ColumnElement[bool]) -> PreparedStatement:
    of_account = and_(List.account_id == Account.id, List.id == bindparam("list_id", type_=BigInteger))
    return PreparedStatement(
        select(
            *(_OF_ACCOUNT[name] for name in SendingAccount.__slots__),
            *(Group.id.label("group_id"), Group.type.label("group_type"), Group.name.label("group_name")),
            _is_configured("from_domain").label("from_configured"),
            _is_configured("bcc_domain").label("bcc_configured"),
            *LIST_WITH_FIELDS_COLUMNS,
        )
        .outerjoin(Group, and_(Group.account_id == Account.id, group_condition))
        .outerjoin(List, of_account)
        .where(Account.id == bindparam("account_id"))
    )


BY_GROUP_ID = _statement(Group.id == bindparam("group"))
BY_GROUP_NAME = _statement(Group.name == bindparam("group"))
