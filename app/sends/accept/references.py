"""What a send refers to, the transactional group that collects its results (docs/sending.md#groups), and the state of a
send while its rules are checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CursorResult,
    Executable,
    String,
    and_,
    bindparam,
    exists,
    func,
    select,
)
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KIND_BY_TYPE, domain_of
from app.contacts.get_or_create import find_by_address, ids_by_address
from app.db.bulk import ChildRows, insert_with_children
from app.db.counters import GROUP_COUNTS, count, count_in_group, hour_of
from app.db.database import Transaction
from app.db.expressions import in_json, json_array
from app.db.models import Account, Contact, Domain, Group, HourlyCount, List
from app.db.models.groups import RESULT_COUNTERS
from app.db.prepared import PreparedStatement, Read, read_together
from app.db.public_ids import LIST_ID, has_id
from app.errors import ErrorCollector, ServiceError
from app.ids import describe, sought_id
from app.lists.fields import ListSpec
from app.lists.find import LIST_WITH_FIELDS_COLUMNS, list_of
from app.sends.accept.content import Content
from app.sends.accept.draft import MessageType, Priority, SendDraft

READ_BY_ID, READ_BY_ADDRESS = "id", "address"

CONTACT_IDS = PreparedStatement(
    select(Contact.id)
    .join(List, List.id == Contact.list_id)
    .where(
        has_id(List, bindparam("account_id", type_=BigInteger), LIST_ID),
        in_json(Contact.id, bindparam("ids", type_=String)),
    )
)


@dataclass(frozen=True, slots=True)
class NamedContacts:
    """The ids that are contacts of the list, and normalized address -> the id of its contact."""

    ids: Collection[int]
    by_key: Mapping[str, int]

    @classmethod
    def of(cls, draft: SendDraft, contact_rows: Mapping[str, Sequence[Any]]) -> NamedContacts:
        """The contacts in the results of `contact_reads`."""
        by_key = ids_by_address(ADDRESS_KIND_BY_TYPE[draft.type], contact_rows.get(READ_BY_ADDRESS, ()))
        return cls(frozenset(row.id for row in contact_rows.get(READ_BY_ID, ())), by_key)


def contact_reads(account_id: int, draft: SendDraft) -> dict[str, Read]:
    """The statements that find them: none for a send without a list, or if no recipient has an id or an address."""
    if draft.list_id is None:
        return {}
    list_parameters = {"account_id": account_id, "list_id": sought_id(draft.list_id)}
    ids = [recipient.contact_id for recipient in draft.recipients if recipient.contact_id is not None]
    kind = ADDRESS_KIND_BY_TYPE[draft.type]
    addresses = addresses_of(draft)
    reads: dict[str, Read] = {}
    if ids:
        reads[READ_BY_ID] = CONTACT_IDS, {**list_parameters, "ids": json_array(ids)}
    if addresses:
        reads[READ_BY_ADDRESS] = find_by_address(kind, addresses, **list_parameters)
    return reads


def addresses_of(draft: SendDraft) -> list[str]:
    """The addresses of the recipients as in the request."""
    named = (recipient.email if draft.type == "email" else recipient.mobile for recipient in draft.recipients)
    return [address for address in named if address is not None]


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
        "list_id": None if draft.list_id is None else sought_id(draft.list_id),
        "group": draft.group_id if draft.group_id is not None else draft.group_name,
        "from_domain": domains[0],
        "bcc_domain": domains[1],
    }
    statement = REFERENCES_BY_GROUP_ID if draft.group_id is not None else REFERENCES_BY_GROUP_NAME
    reads = contact_reads(account_id, draft)
    (row,), *contact_rows = read_together(session, (statement, values), *reads.values())
    configured = dict(zip(domains, (row.from_configured, row.bcc_configured), strict=True))
    return SendReferences(
        SendingAccount(*(getattr(row, name) for name in SendingAccount.__slots__)),
        None if row.group_id is None else ExistingGroup(row.group_id, row.group_type, row.group_name),
        {domain: bool(verified) for domain, verified in configured.items() if domain is not None},
        None if row.list_id is None else list_of(row),
        NamedContacts.of(draft, dict(zip(reads, contact_rows, strict=True))),
    )


def _domain(draft: SendDraft, address: str | None) -> str | None:
    return domain_of(address) if address and draft.type == "email" else None


def _is_configured(parameter: str) -> ColumnElement[bool]:
    """The domain itself must be verified, not just a parent (docs/sending.md#senders)."""
    name = bindparam(parameter, type_=String)
    return exists().where(Domain.account_id == Account.id, Domain.name == name, Domain.verified_time.is_not(None))


_ACCOUNT_COLUMNS: dict[str, Any] = {
    **{name: getattr(Account, name) for name in SendingAccount.__slots__ if name != "is_test"},
    "is_test": Account.test_of.is_not(None).label("is_test"),
}


def _statement(group_condition: ColumnElement[bool]) -> PreparedStatement:
    return PreparedStatement(
        select(
            *(_ACCOUNT_COLUMNS[name] for name in SendingAccount.__slots__),
            *(Group.id.label("group_id"), Group.type.label("group_type"), Group.name.label("group_name")),
            _is_configured("from_domain").label("from_configured"),
            _is_configured("bcc_domain").label("bcc_configured"),
            *LIST_WITH_FIELDS_COLUMNS,
        )
        .outerjoin(Group, and_(Group.account_id == Account.id, group_condition))
        .outerjoin(List, has_id(List, Account.id, LIST_ID))
        .where(Account.id == bindparam("account_id"))
    )


REFERENCES_BY_GROUP_ID = _statement(Group.id == bindparam("group"))
REFERENCES_BY_GROUP_NAME = _statement(Group.name == bindparam("group"))


@dataclass(frozen=True, slots=True)
class SendCheck:
    """The state that the checks of a send share. All rules are checked before the send is refused
    (docs/requests.md#errors)."""

    session: Session
    account_id: int
    draft: SendDraft
    content: Content
    references: SendReferences
    errors: ErrorCollector = field(default_factory=ErrorCollector)

    def rows(self, statement: Executable) -> CursorResult[*tuple[Any, ...]]:
        """The result of a statement, without the ORM."""
        return self.session.connection().execute(statement)


@dataclass(frozen=True, slots=True)
class SendGroup:
    """The group of a send; its id is None if it is still to be created."""

    id: int | None
    name: str


def find_group(check: SendCheck, max_groups: int, *, only_reading: bool = False) -> SendGroup | None:
    """The existing group that the send names, or a new one to create; None if errors were collected.

    `max_groups` is the limit of the account. Names are compared exactly (docs/sending.md#groups). Raises `conflict` for
    a group of the other type. If the group is not going to be created, `only_reading`, nothing is locked.
    """
    draft = check.draft
    if draft.group_id is None and draft.group_name is None:
        check.errors.add("group_missing", field="group_name")
        return None
    row = check.references.group
    if row is None and draft.group_id is None:
        # Requests that create groups of an account take turns, so that the limit holds and each name is created once.
        if not only_reading:
            _lock_account(check)
            row = _find(check)
        if row is None:
            return _plan_group(check, max_groups)
    if row is None or draft.group_name not in (None, row.name.strip()):
        check.errors.add("invalid_id", field="group_id", detail=_mismatch(draft, row))
        return None
    if row.type != draft.type:
        raise _type_conflict(draft, row)
    return SendGroup(row.id, row.name)


def _find(check: SendCheck) -> ExistingGroup | None:
    """The group of that name, looked up again under the lock."""
    statement = select(Group.id, Group.type, Group.name).where(
        Group.account_id == check.account_id, Group.name == check.draft.group_name
    )
    row = check.rows(statement).one_or_none()
    return ExistingGroup(*row) if row else None


def _lock_account(check: SendCheck) -> None:
    """Locks the row until the end of the transaction. Inserts with a foreign key to the account do not wait for it."""
    check.rows(select(Account.id).where(Account.id == check.account_id).with_for_update(key_share=True))


def _plan_group(check: SendCheck, max_groups: int) -> SendGroup | None:
    count = check.rows(select(func.count()).where(Group.account_id == check.account_id)).scalar_one()
    if count >= max_groups:
        check.errors.add("group_count_exceeded", field="group_name")
        return None
    return SendGroup(None, check.draft.group_name or "")


def _mismatch(draft: SendDraft, row: ExistingGroup | None) -> str:
    if row is None:
        return f"group_id: there is no {describe('group', draft.group_id or 0)}."
    return f"group_id: the group {row.id} is not called {draft.group_name}."


def _type_conflict(draft: SendDraft, row: ExistingGroup) -> ServiceError:
    field = "group_id" if draft.group_id is not None else "group_name"
    detail = f"{field}: the group {row.id} is for {row.type}, and this is a send of {draft.type}."
    return ServiceError("conflict", field=field, detail=detail, conflict_fields={field: {"group_id": row.id}})


def create_group(
    transaction: Transaction,
    account_id: int,
    type_: MessageType,
    name: str,
    *,
    recipients: int,
    send_time: datetime,
) -> int:
    """Creates a group with the number of recipients of its first send; returns its id."""
    row = {
        "account_id": account_id,
        "type": type_,
        "name": name,
        "creation_time": send_time,
        "last_sent_time": send_time,
        "sent": recipients,
        **dict.fromkeys(RESULT_COUNTERS, 0),
    }
    first_hour = {"slot": 0, "hour": hour_of(send_time), "sent": recipients}
    hours = ChildRows(HourlyCount, "group_id", [first_hour], {"account_id": account_id})
    return insert_with_children(transaction, Group, row, [hours])


def count_send(
    transaction: Transaction, account_id: int, group_id: int, *, recipients: int, send_time: datetime
) -> None:
    """Adds a send's recipients to an existing group."""
    count_in_group(transaction, account_id, group_id, send_time, sent=recipients)
    count(transaction, GROUP_COUNTS, account_id, (group_id,), last_sent_time=send_time)
