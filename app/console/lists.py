"""Lists: searching them, and finding one with its fields (docs/console.md#lists-and-contacts)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.console.queries import Pairs, older_query
from app.contacts.counts import numbers_of_contacts
from app.db.models import Account, List
from app.ids import copied_id, existing, id_in, shown_id
from app.lists.fields import ListSpec
from app.lists.find import find_list
from app.lists.read import LISTS, page_lists
from app.query.copies import with_copies
from app.query.cursors import CursorScope
from app.query.grammar import parse_collection
from app.secret_keys import SecretKeys

PATH = "/console/lists"


def path_of_list(contact_list: ListSpec | List) -> str:
    """That of its page."""
    return f"{PATH}/{shown_id(contact_list.id)}"


def sought(text: str) -> tuple[str, str]:
    """The filter of a text that somebody looks for: an id, or the whole name."""
    return ("name", text) if id_in(text) is None else ("id", text)


def search(
    session: Session, secret_keys: SecretKeys, account: Account, pairs: Pairs, limit: int
) -> tuple[Sequence[Mapping[str, Any]], Pairs | None]:
    """The account's lists that match, the newest first, each with the number of its contacts, and the query of older
    ones: two statements. Raises the errors of the query."""
    cursors = CursorScope(secret_keys, account.id, PATH)
    query = replace(parse_collection(pairs, LISTS.resource, cursors), limit=limit)
    if account.test_of is not None:
        query = with_copies(query, ("id",))
    page = page_lists(session, account.id, query)
    numbers = numbers_of_contacts(session, [row.id for row in page.rows])
    items = [{**item, "contacts": numbers.get(row.id, 0)} for item, row in zip(page.items, page.rows, strict=True)]
    return items, older_query(cursors, pairs, page.ends.next if page.ends.has_next else None)


def list_of(session: Session, account_id: int | None, list_id: int) -> ListSpec:
    """The list that everybody outside knows by that id: of the account, or of any for None. Raises `not_found`."""
    if account_id is None:
        owner = session.scalar(select(List.account_id).where(List.id == list_id))
        return existing(None if owner is None else find_list(session, owner, list_id), "list", list_id)
    own = find_list(session, account_id, list_id)
    # In a test account the list may be a copy.
    return own or existing(find_list(session, account_id, copied_id(list_id)), "list", list_id)
