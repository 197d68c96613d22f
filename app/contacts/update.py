"""Updating contacts (specification: Contacts, States; decisions: 5 and 11)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import bindparam, select, update

from app.automations.triggers import fire
from app.clock import this_second
from app.contacts.events import announce
from app.contacts.identifiers import Claim, check_free, guarded
from app.contacts.rules import address_errors, place, raise_in_order, system_errors
from app.contacts.state import BLANK, Edit, State, after, looked_up, wishes_of
from app.contacts.subscriptions import entries_of, follow_wishes, lock_for_writes
from app.db.database import Transaction
from app.db.models import Contact, table_of
from app.errors import FieldError, ServiceError
from app.ids import named
from app.lists.fields import ListSpec

Change = tuple[int, Mapping[str, Any]]
"""A contact's id and the attributes to write, as in `create_contacts`; null clears."""

Result = tuple[Edit, State]


def update_contacts(
    transaction: Transaction,
    lst: ListSpec,
    changes: Sequence[Change],
    *,
    bulk: bool = False,
    allow_system: bool = False,
    lasting: bool = False,
) -> int:
    """Updates contacts and returns how many of them differ now; for the others nothing happens at all.
    `lasting` is for one of many calls in a long transaction.

    Raises `ServiceError` with every broken rule, for `bulk` located by collection and index; a contact that the list
    does not have is `invalid_id` there and `not_found` in the single form. Then nothing may be kept of the
    transaction.
    """
    lock_for_writes(transaction, lst.account_id, [given for _, given in changes], lasting=lasting)
    rows = _locked_rows(transaction, lst, {contact_id for contact_id, _ in changes})
    _check_rules(lst, changes, rows, bulk, allow_system)
    _check_named_once(changes, bulk)

    edits = [Edit(index, rows[contact_id], given) for index, (contact_id, given) in enumerate(changes)]
    entries = entries_of(transaction, lst.account_id, lst.id, looked_up(edits))
    wishes = wishes_of(edits)
    moment = this_second()
    results = [(edit, after(lst, edit, entries, wishes, moment)) for edit in edits]
    changed = [(edit, state) for edit, state in results if any(state[name] != edit.before[name] for name in BLANK)]

    moved = [(edit, state) for edit, state in changed if state["identifier"] != edit.before["identifier"]]
    claims = [Claim(edit.index, state["identifier"]) for edit, state in moved if state["identifier"] is not None]
    released = {edit.before["id"] for edit, _ in moved}
    check = partial(check_free, transaction, lst, claims, released=released, bulk=bulk)
    check()
    with guarded(transaction, check):
        _give_up(transaction, moved)
        _write(transaction, changed, moment)
    others = follow_wishes(transaction, lst.account_id, entries, wishes, moment)
    updated = [(lst.id, edit.before["id"]) for edit, _ in changed]
    announce(transaction, lst.account_id, "updated", [*updated, *others], moment)
    fire(transaction, lst.account_id, "updated", updated)
    return len(changed)


def _locked_rows(transaction: Transaction, lst: ListSpec, ids: Collection[int]) -> dict[int, dict[str, Any]]:
    """The contacts by id, locked in one order for all requests, so that none is changed between look and write."""
    table = table_of(Contact)
    statement = (
        select(table).where(table.c.list_id == lst.id, table.c.id.in_(ids)).order_by(table.c.id).with_for_update()
    )
    return {row.id: dict(row._mapping) for row in transaction.execute(statement)}


def _check_rules(
    lst: ListSpec, changes: Sequence[Change], rows: Mapping[int, State], bulk: bool, allow_system: bool
) -> None:
    unknown = {
        index: f"There is no {named('contact', contact_id)} in list {lst.id}."
        for index, (contact_id, _) in enumerate(changes)
        if contact_id not in rows
    }
    if unknown and not bulk:
        raise ServiceError("not_found", detail=unknown[0])
    raise_in_order(
        [
            *(FieldError("invalid_id", "id", detail=text, **place(index, bulk)) for index, text in unknown.items()),
            *address_errors(lst, [given for _, given in changes], bulk),
            *system_errors(lst, allow_system),
            *(
                FieldError("cannot_reset_double_opt_in", "double_opt_in", **place(index, bulk))
                for index, (contact_id, given) in enumerate(changes)
                if given.get("double_opt_in") is False and rows.get(contact_id, BLANK)["double_opt_in"]
            ),
        ]
    )


def _check_named_once(changes: Sequence[Change], bulk: bool) -> None:
    """The same id twice is `conflict`, reported at the second (decisions: 5 and 11)."""
    seen: set[int] = set()
    errors = []
    for index, (contact_id, _) in enumerate(changes):
        if contact_id in seen:
            detail = f"id: contact {contact_id} is named by an earlier element of this request."
            errors.append(FieldError("conflict", "id", **place(index, bulk), detail=detail))
        seen.add(contact_id)
    if errors:
        repeated = changes[errors[0].index or 0][0]
        raise ServiceError.of(errors, taken={"id": {"contact_id": repeated}})


def _give_up(transaction: Transaction, moved: Sequence[Result]) -> None:
    """Clears identifiers that another contact of this request takes over: the index does not wait for the end state."""
    wanted = {state["identifier"] for _, state in moved} - {None}
    ids = [edit.before["id"] for edit, _ in moved if edit.before["identifier"] in wanted]
    if ids:
        statement = update(Contact).where(Contact.id.in_(ids)).values(identifier=None)
        transaction.execute(statement, execution_options={"synchronize_session": False})


def _write(transaction: Transaction, changed: Sequence[Result], moment: datetime) -> None:
    if not changed:
        return
    columns: dict[str, Any] = {name: bindparam(f"new_{name}") for name in BLANK}
    statement = (
        update(Contact).where(Contact.id == bindparam("contact_id")).values(last_modified_time=moment, **columns)
    )
    in_order = sorted(changed, key=lambda result: result[1]["identifier"] or "")
    rows = [
        {"contact_id": edit.before["id"], **{f"new_{name}": state[name] for name in BLANK}} for edit, state in in_order
    ]
    # On the connection, because the session would take a list of rows for an update by primary key.
    transaction.connection().execute(statement, rows)
