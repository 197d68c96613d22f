"""The contacts that the recipients of a send name, by id or by address. Those that the list lacks are created later
(app/contacts/get_or_create.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, String, bindparam, select

from app.addresses import ADDRESS_KIND_BY_TYPE
from app.contacts.get_or_create import find_by_address, ids_by_address
from app.db.in_json import in_json, json_array
from app.db.models import Contact, List
from app.db.prepared import PreparedStatement, Read
from app.ids import BIGGEST
from app.sends.accept.draft import SendDraft

BY_ID, BY_ADDRESS = "id", "address"

EXISTING = PreparedStatement(
    select(Contact.id)
    .join(List, List.id == Contact.list_id)
    .where(
        List.account_id == bindparam("account_id", type_=BigInteger),
        List.id == bindparam("list_id", type_=BigInteger),
        in_json(Contact.id, bindparam("ids", type_=String)),
    )
)


@dataclass(frozen=True, slots=True)
class NamedContacts:
    """The ids that are contacts of the list, and normalized address -> the id of its contact."""

    ids: Collection[int]
    by_key: Mapping[str, int]

    @classmethod
    def of(cls, draft: SendDraft, found: Mapping[str, Sequence[Any]]) -> NamedContacts:
        """From the results of `contact_reads`."""
        by_key = ids_by_address(ADDRESS_KIND_BY_TYPE[draft.type], found.get(BY_ADDRESS, ()))
        return cls(frozenset(row.id for row in found.get(BY_ID, ())), by_key)


def contact_reads(account_id: int, draft: SendDraft) -> dict[str, Read]:
    """The statements that find them: none for a send without a list, or if no recipient has an id or an address."""
    if draft.list_id is None:
        return {}
    of_list = {"account_id": account_id, "list_id": min(draft.list_id, BIGGEST)}
    ids = [recipient.contact_id for recipient in draft.recipients if recipient.contact_id is not None]
    kind = ADDRESS_KIND_BY_TYPE[draft.type]
    addresses = addresses_of(draft)
    reads: dict[str, Read] = {}
    if ids:
        reads[BY_ID] = EXISTING, {**of_list, "ids": json_array(ids)}
    if addresses:
        reads[BY_ADDRESS] = find_by_address(kind, addresses, **of_list)
    return reads


def addresses_of(draft: SendDraft) -> list[str]:
    """The addresses of the recipients as in the request."""
    named = (recipient.email if draft.type == "email" else recipient.mobile for recipient in draft.recipients)
    return [address for address in named if address is not None]
