"""The tables whose rows people set up, and what an entry says of each of their columns (docs/audit.md#actions).

Each column is shown with its values; named without them, if the model marks it as confidential or personal
(app/db/models/base.py); or `unrecorded`, because it is the service that writes it or because others say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import event, inspect
from sqlalchemy.orm import Session
from sqlalchemy.orm.util import identity_key

from app.audit.record import Act, ObjectKey, PendingActs, pending_of
from app.audit.values import Change, host_of, shown_change
from app.db.database import Transaction
from app.db.models import (
    Account,
    ApiKey,
    Automation,
    Base,
    DkimKey,
    Domain,
    List,
    ListField,
    Message,
    Route,
    SendPause,
    SmsSender,
    Transport,
    TransportAccount,
    Webhook,
    WebhookSecret,
    table_of,
)
from app.db.models.base import CONFIDENTIAL, PLACE

OldAndNew = Mapping[str, tuple[Any, Any]]
"""Column -> its values before and after an update."""
Verb = Callable[[OldAndNew], str | None]
TIME_COLUMNS = frozenset({"creation_time", "last_modified_time"})
UNRECORDED_COLUMNS = frozenset({"id", "account_id", *TIME_COLUMNS})


@dataclass(frozen=True, slots=True)
class PartTable:
    """Rows that are parts of another one, such as the fields of a list: their changes are changes of the row of `model`
    that their `column` names, under the name `parts`."""

    model: type[Base]
    column: str
    parts: str


@dataclass(frozen=True, slots=True)
class AuditedTable:
    """How changes of the rows of a table are recorded."""

    kind: str
    name: Callable[[Any], str | None]
    unrecorded: frozenset[str] = UNRECORDED_COLUMNS
    verb: Verb = lambda _: None
    """What an update is called where "updated" says too little."""
    part_of: PartTable | None = None

    def account_of(self, row: Any) -> int | None:
        """The account of the row; None for what belongs to the installation."""
        if isinstance(row, Account):
            return row.id
        return None if self.kind in ("transport", "route") else row.account_id


def columns(*names: str) -> frozenset[str]:
    """A set of columns."""
    return frozenset(names)


def begins(column: str) -> Callable[[OldAndNew], bool]:
    """Whether a column got a value that had none."""

    def check(changes: OldAndNew) -> bool:
        old, new = changes.get(column, (None, None))
        return old is None and new is not None

    return check


def ends(column: str) -> Callable[[OldAndNew], bool]:
    """Whether a column that had a value has none now."""

    def check(changes: OldAndNew) -> bool:
        old, new = changes.get(column, (None, None))
        return old is not None and new is None

    return check


def _key_verb(changes: OldAndNew) -> str | None:
    if begins("revoked_time")(changes):
        return "revoked"
    if ends("revoked_time")(changes) and "token_hash" not in changes:
        return "restored"
    return "rotated" if begins("valid_until")(changes) else None


def _domain_verb(changes: OldAndNew) -> str | None:
    return "verified" if begins("verified_time")(changes) else None


def _automation_verb(changes: OldAndNew) -> str | None:
    _, state = changes.get("state", (None, None))
    return {"paused": "paused", "active": "resumed", "deleted": "deleted"}.get(str(state))


def _name(row: Any) -> str | None:
    name: str | None = row.name
    return name


def _sender_name(row: SmsSender) -> str | None:
    """A number is an address, a name is none."""
    return row.address if row.kind == "alphanumeric" else None


AUDITED_TABLES: dict[type[Base], AuditedTable] = {
    Account: AuditedTable("account", _name, unrecorded=columns("id", "has_digests", *TIME_COLUMNS)),
    ApiKey: AuditedTable(
        "key",
        _name,
        unrecorded=columns(
            *("id", "account_id", "creation_time", "token_hint", "revoked_time", "last_used_time", "former_name"),
        ),
        verb=_key_verb,
    ),
    Domain: AuditedTable(
        "domain",
        _name,
        unrecorded=columns(
            *("id", "account_id", "creation_time", "checked_time", "findings"),
            *("tracking_host_ready", "return_path_host_ready"),
        ),
        verb=_domain_verb,
    ),
    DkimKey: AuditedTable(
        "domain",
        lambda row: str(row.selector),
        unrecorded=columns(
            *("id", "account_id", "domain_id", "selector", "public_key", "creation_time", "retired_time")
        ),
        part_of=PartTable(Domain, "domain_id", "dkim_keys"),
    ),
    SmsSender: AuditedTable("sender", _sender_name, unrecorded=columns("id", "account_id", "creation_time")),
    List: AuditedTable("list", _name, unrecorded=UNRECORDED_COLUMNS | {"has_automations", "copy_of"}),
    ListField: AuditedTable(
        "list",
        _name,
        unrecorded=columns("id", "account_id", "list_id", "position", "name", "key"),
        part_of=PartTable(List, "list_id", "fields"),
    ),
    Message: AuditedTable("message", _name, unrecorded=UNRECORDED_COLUMNS | {"copy_of"}),
    Webhook: AuditedTable(
        "webhook",
        lambda row: host_of(row.url),
        unrecorded=columns(
            *("id", "account_id", "creation_time", "due_time", "lease_time", "worker", "failures", "batch_id"),
            *("position", "batch_end", "complete_to", "first_failed_time", "dropped_events", "failing_since"),
            *("outage_reported_time", "held_to", "barred"),
        ),
    ),
    WebhookSecret: AuditedTable(
        "webhook",
        lambda row: str(row.key_id),
        unrecorded=columns("id", "account_id", "webhook_id", "key_id", "creation_time"),
        part_of=PartTable(Webhook, "webhook_id", "secrets"),
    ),
    Transport: AuditedTable("transport", _name, unrecorded=columns("id", *TIME_COLUMNS)),
    TransportAccount: AuditedTable(
        "transport",
        lambda row: f"account {row.account_id}",
        unrecorded=columns("transport_id", "account_id"),
        part_of=PartTable(Transport, "transport_id", "allowed"),
    ),
    Route: AuditedTable("route", _name, unrecorded=columns("id", *TIME_COLUMNS)),
    SendPause: AuditedTable(
        "pause",
        lambda row: row.domain,
        unrecorded=columns("id", "account_id", "creation_time", "paused_by", "resumed_time"),
    ),
    Automation: AuditedTable(
        "automation",
        _name,
        unrecorded=UNRECORDED_COLUMNS | {"paused_time", "release", "shifted_seconds"},
        verb=_automation_verb,
    ),
}


@cache
def shown_columns(model: type[Base]) -> frozenset[str]:
    """The columns that an entry shows with their values."""
    names = {
        column.name
        for column in table_of(model).columns
        if not (column.info.get(CONFIDENTIAL) or column.info.get(PLACE))
    }
    return frozenset(names) - AUDITED_TABLES[model].unrecorded


# Notices what the ORM writes to the tables that are `AUDITED_TABLES`, in every transaction of this process.

EMPTY_VALUES: tuple[Any, ...] = (None, "", [], False)
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
        audited = AUDITED_TABLES.get(type(row))
        if audited is not None:
            note(session, pending_of(session), audited, row)


def _note_created(session: Transaction, pending: PendingActs, audited: AuditedTable, row: Any) -> None:
    if audited.part_of is not None:
        act = _act_on_whole(session, pending, audited, audited.part_of, row)
        _merge(act, [shown_change(audited.part_of.parts, new=audited.name(row))])
        return
    model: type[Base] = type(row)
    names = (name for name in sorted(shown_columns(model)) if getattr(row, name) not in EMPTY_VALUES)
    changes = [shown_change(name, new=getattr(row, name)) for name in names]
    pending.noticed[_key(audited, row)] = _act(audited, row, "created", changes)


def _note_updated(session: Transaction, pending: PendingActs, audited: AuditedTable, row: Any) -> None:
    changed = _changed(row)
    verb, changes = audited.verb(changed), list(_recorded_changes(type(row), changed))
    if not changes and verb is None:
        return
    if audited.part_of is not None:
        prefix = f"{audited.part_of.parts}.{audited.name(row)}"
        named: list[Change] = [{**change, "field": f"{prefix}.{change['field']}"} for change in changes]
        _merge(_act_on_whole(session, pending, audited, audited.part_of, row), named)
        return
    act = pending.noticed.setdefault(_key(audited, row), _act(audited, row, "updated", [], changed))
    _merge(act, changes)
    if verb is not None and act.action.endswith(".updated"):
        act.action = f"{audited.kind}.{verb}"


def _note_deleted(session: Transaction, pending: PendingActs, audited: AuditedTable, row: Any) -> None:
    if audited.part_of is not None:
        act = _act_on_whole(session, pending, audited, audited.part_of, row)
        _merge(act, [shown_change(audited.part_of.parts, old=audited.name(row))])
        return
    noticed = pending.noticed.pop(_key(audited, row), None)
    if noticed is None or not noticed.action.endswith(".created"):
        pending.noticed[_key(audited, row)] = _act(audited, row, "deleted", [])


def _key(audited: AuditedTable, row: Any) -> ObjectKey:
    return audited.kind, str(row.id)


def _act(audited: AuditedTable, row: Any, verb: str, changes: list[Change], changed: OldAndNew | None = None) -> Act:
    """An act on the row, under the name that the row had before."""
    old_name, _ = (changed or {}).get("name", (None, None))
    name = old_name or audited.name(row)
    return Act(f"{audited.kind}.{verb}", audited.account_of(row), row.id, name, changes=changes)


def _act_on_whole(
    session: Transaction, pending: PendingActs, audited: AuditedTable, part_of: PartTable, row: Any
) -> Act:
    """The act that the change of a part belongs to. The session has the whole, with which every change begins."""
    whole_id = getattr(row, part_of.column)
    key = audited.kind, str(whole_id)
    if key not in pending.noticed:
        whole = session.identity_map.get(identity_key(part_of.model, whole_id))
        name = None if whole is None else AUDITED_TABLES[part_of.model].name(whole)
        pending.noticed[key] = Act(f"{audited.kind}.updated", audited.account_of(row), whole_id, name)
    return pending.noticed[key]


def _changed(row: Base) -> dict[str, tuple[Any, Any]]:
    """The columns whose values differ from before."""
    old_and_new = {}
    for attribute in inspect(row).attrs:
        history = attribute.history
        old, new = _only(history.deleted), _only(history.added)
        if history.has_changes() and old != new:
            old_and_new[attribute.key] = (old, new)
    return old_and_new


def _only(values: Any) -> Any:
    return values[0] if values else None


def _recorded_changes(model: type[Base], changed: OldAndNew) -> Iterator[Change]:
    for name, (old, new) in sorted(changed.items()):
        if name in shown_columns(model):
            yield shown_change(name, old=old, new=new)
        elif name not in AUDITED_TABLES[model].unrecorded:
            yield {"field": name}


def _merge(act: Act, changes: list[Change]) -> None:
    """Adds changes to an act; a later value of a field replaces the earlier one."""
    for change in changes:
        earlier = next((noted for noted in act.changes if noted["field"] == change["field"] and "new" in noted), None)
        if earlier is not None and "old" in change and "new" in change:
            earlier["new"] = change["new"]
        else:
            act.changes.append(change)
