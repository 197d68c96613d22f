"""Notices what the ORM writes to the tables that are `AUDITED`, in every transaction of this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import event, inspect
from sqlalchemy.orm import Session
from sqlalchemy.orm.util import identity_key

from app.audit.audited import AUDITED, Audited, OldAndNew, PartOf
from app.audit.record import Act, ObjectKey, Pending, pending_of
from app.audit.values import Change, shown_change
from app.db.database import Transaction
from app.db.models import Base

EMPTY: tuple[Any, ...] = (None, "", [], False)
"""Values that are not worth a word when a row is created."""


def notice_changes() -> None:
    """Begins to notice changes in this process."""
    if not event.contains(Transaction, "after_flush", _after_flush):
        event.listen(Transaction, "after_flush", _after_flush)


def _after_flush(session: Session, _context: object) -> None:
    """New rows have their ids by now, and changed ones still know what they were."""
    if not isinstance(session, Transaction):
        return
    for row, note in (
        *((row, _note_created) for row in session.new),
        *((row, _note_updated) for row in session.dirty),
        *((row, _note_deleted) for row in session.deleted),
    ):
        audited = AUDITED.get(type(row))
        if audited is not None:
            note(session, pending_of(session), audited, row)


def _note_created(session: Transaction, pending: Pending, audited: Audited, row: Any) -> None:
    if audited.part_of is not None:
        act = _act_on_whole(session, pending, audited, audited.part_of, row)
        _merge(act, [shown_change(audited.part_of.parts, new=audited.name(row))])
        return
    changes = [
        shown_change(name, new=value) for name in sorted(audited.shown) if (value := getattr(row, name)) not in EMPTY
    ]
    pending.noticed[_key(audited, row)] = _act(audited, row, "created", changes)


def _note_updated(session: Transaction, pending: Pending, audited: Audited, row: Any) -> None:
    changed = _changed(row)
    verb, changes = audited.verb(changed), list(_shown(audited, changed))
    if not changes and verb is None:
        return
    if audited.part_of is not None:
        prefix = f"{audited.part_of.parts}.{audited.name(row)}"
        named: list[Change] = [{**one, "field": f"{prefix}.{one['field']}"} for one in changes]
        _merge(_act_on_whole(session, pending, audited, audited.part_of, row), named)
        return
    act = pending.noticed.setdefault(_key(audited, row), _act(audited, row, "updated", [], changed))
    _merge(act, changes)
    if verb is not None and act.action.endswith(".updated"):
        act.action = f"{audited.kind}.{verb}"


def _note_deleted(session: Transaction, pending: Pending, audited: Audited, row: Any) -> None:
    if audited.part_of is not None:
        act = _act_on_whole(session, pending, audited, audited.part_of, row)
        _merge(act, [shown_change(audited.part_of.parts, old=audited.name(row))])
        return
    known = pending.noticed.pop(_key(audited, row), None)
    if known is None or not known.action.endswith(".created"):
        pending.noticed[_key(audited, row)] = _act(audited, row, "deleted", [])


def _key(audited: Audited, row: Any) -> ObjectKey:
    return audited.kind, str(row.id)


def _act(audited: Audited, row: Any, verb: str, changes: list[Change], changed: OldAndNew | None = None) -> Act:
    """An act on the row, under the name that the row had before."""
    old_name, _ = (changed or {}).get("name", (None, None))
    name = old_name or audited.name(row)
    return Act(f"{audited.kind}.{verb}", audited.account_of(row), row.id, name, changes=changes)


def _act_on_whole(session: Transaction, pending: Pending, audited: Audited, part_of: PartOf, row: Any) -> Act:
    """The act that the change of a part belongs to. The session has the whole, with which every change begins."""
    whole_id = getattr(row, part_of.column)
    key = audited.kind, str(whole_id)
    if key not in pending.noticed:
        whole = session.identity_map.get(identity_key(part_of.model, whole_id))
        name = None if whole is None else AUDITED[part_of.model].name(whole)
        pending.noticed[key] = Act(f"{audited.kind}.updated", audited.account_of(row), whole_id, name)
    return pending.noticed[key]


def _changed(row: Base) -> dict[str, tuple[Any, Any]]:
    """The columns whose values differ from before."""
    found = {}
    for attribute in inspect(row).attrs:
        history = attribute.history
        old, new = _only(history.deleted), _only(history.added)
        if history.has_changes() and old != new:
            found[attribute.key] = (old, new)
    return found


def _only(values: Any) -> Any:
    return values[0] if values else None


def _shown(audited: Audited, changed: OldAndNew) -> Iterator[Change]:
    for name, (old, new) in sorted(changed.items()):
        if name in audited.shown:
            yield shown_change(name, old=old, new=new)
        elif name not in audited.unrecorded:
            yield {"field": name}


def _merge(act: Act, changes: list[Change]) -> None:
    """Adds changes to an act; a later value of a field replaces the earlier one."""
    for change in changes:
        earlier = next((one for one in act.changes if one["field"] == change["field"] and "new" in one), None)
        if earlier is not None and "old" in change and "new" in change:
            earlier["new"] = change["new"]
        else:
            act.changes.append(change)
