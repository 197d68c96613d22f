"""What a request to add suppressions says (docs/suppressions.md#adding): the rules that concern several attributes, and
the lists that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.addresses import ADDRESS_KINDS, normalize_address
from app.db.database import Transaction
from app.errors import FieldError, ServiceError, in_catalogue_order
from app.ids import describe, sought_id
from app.suppressions.add import NewSuppression, stored_list_ids
from app.suppressions.filters import SUPPRESSIONS
from app.suppressions.states import BLOCKED, REASON_BY_HAND

Draft = Mapping[str, Any]
"""The attributes of one suppression; null is the same as absence."""


def read_drafts(
    transaction: Transaction, account_id: int, drafts: Sequence[Draft], *, bulk: bool = False
) -> list[NewSuppression]:
    """The suppressions of the drafts: one statement if any names a list, which is locked. Raises every broken rule, for
    `bulk` located by collection and index."""
    ids = {sought_id(draft["list_id"]) for draft in drafts if draft.get("list_id") is not None}
    lists = stored_list_ids(transaction, account_id, ids)
    collection = SUPPRESSIONS.collection if bulk else None
    errors = [
        FieldError(code, field, collection, index if bulk else None, detail)
        for index, draft in enumerate(drafts)
        for code, field, detail in _broken_rules(draft, lists)
    ]
    if errors:
        raise ServiceError.of(in_catalogue_order(errors))
    return [_new(draft, lists) for draft in drafts]


def _broken_rules(draft: Draft, lists: Mapping[int, int]) -> Iterator[tuple[str, str, str]]:
    addresses = [kind for kind in ADDRESS_KINDS if draft.get(kind) is not None]
    if not addresses:
        yield "required", "email", "An address is required: email or mobile."
    elif len(addresses) > 1:
        yield "unexpected_field", "mobile", "A suppression has one address: email or mobile."
    list_id, is_blocked = draft.get("list_id"), draft["state"] == BLOCKED
    if is_blocked and list_id is not None:
        yield "unexpected_field", "list_id", "A block applies to all lists. Leave list_id out."
    elif list_id is not None and sought_id(list_id) not in lists:
        yield "invalid_id", "list_id", f"list_id: the account has no {describe('list', list_id)}."
    if not is_blocked and draft.get("reason") is not None:
        yield "unexpected_field", "reason", "Only a block has a reason. Leave reason out."


def _new(draft: Draft, lists: Mapping[int, int]) -> NewSuppression:
    kind = next(kind for kind in ADDRESS_KINDS if draft.get(kind) is not None)
    list_id, is_blocked = draft.get("list_id"), draft["state"] == BLOCKED
    return NewSuppression(
        normalize_address(kind, draft[kind]),
        draft["state"],
        None if list_id is None else lists[list_id],
        (draft.get("reason") or REASON_BY_HAND) if is_blocked else "",
    )
