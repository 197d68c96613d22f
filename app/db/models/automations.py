"""Automations: their versions and steps, the runs of contacts, and the triggers that have fired."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import IMPERSONAL, AccountId, Base, BigInt, Identity, Impersonal, Timestamps, partial_index
from app.db.types import BigId, Json


class TriggerFiring(Base):
    """A contact was created or updated; each kind of automation has its own name for the trigger."""

    __tablename__ = "trigger_firings"
    __table_args__ = (
        Index("ix_trigger_firings_account", "account_id", "id"),
        Index("ix_trigger_firings_time", "time"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    list_id: Mapped[BigInt]
    contact_id: Mapped[BigInt]
    action: Mapped[Impersonal]
    """`created` or `updated`."""
    time: Mapped[datetime]


class Automation(Timestamps, Base):
    """What happens to contacts of a list when a trigger fires (docs/automations.md)."""

    __tablename__ = "automations"
    __table_args__ = (
        UniqueConstraint("account_id", "name"),
        Index("ix_automations_page", "account_id", "creation_time", "id"),
        Index("ix_automations_list", "list_id"),
        partial_index("ix_automations_release", "id", where="release IS NOT NULL"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    name: Mapped[Impersonal]
    kind: Mapped[Impersonal]
    """`standard` or `advanced`."""
    list_id: Mapped[int] = mapped_column(BigId, ForeignKey("lists.id", ondelete="CASCADE"))
    action: Mapped[Impersonal]
    """What its trigger reacts to: `created` or `updated`."""
    state: Mapped[Impersonal]
    """`active`, `paused` or `deleted`."""
    version: Mapped[int]
    """The number of the newest."""
    paused_time: Mapped[datetime | None]
    release: Mapped[Impersonal | None]
    """`send` or `skip`, while runs are still to be let go that were held in a pause which has ended; `end`, while runs
    of a deleted automation are still to be ended."""
    shifted_seconds: Mapped[BigInt] = mapped_column(default=0)
    """The length of all pauses together that were ended by shifting what was to come."""


class AutomationVersion(Base):
    """One version of an automation: never changed, so that a run finishes on the version on which it began."""

    __tablename__ = "automation_versions"
    __table_args__ = (UniqueConstraint("automation_id", "number"), {"sqlite_autoincrement": True})

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    automation_id: Mapped[int] = mapped_column(BigId, ForeignKey("automations.id", ondelete="CASCADE"))
    number: Mapped[int]
    definition: Mapped[dict[str, Any]] = mapped_column(Json, info=IMPERSONAL)
    """What the author wrote, in its full form and with the ids that names stood for (app/automations/written.py)."""
    creation_time: Mapped[datetime]


class AutomationStep(Base):
    """A step of an automation, the same through its versions.

    Its id comes from the sequence of groups (`take_ids`): `step_id` and `report_id` of events,
    and the `group_id` under which the recipients of a step are counted and found, so that no group ever has it.
    """

    __tablename__ = "automation_steps"
    __table_args__: Any = (UniqueConstraint("automation_id", "name"),)

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    account_id: Mapped[AccountId]
    automation_id: Mapped[int] = mapped_column(BigId, ForeignKey("automations.id", ondelete="CASCADE"))
    name: Mapped[Impersonal]
    kind: Mapped[Impersonal]
    """The verb of the step: `send`, `wait`, `branch`, `set`, `unsubscribe`, `call` or `stop`."""


class AutomationRun(Base):
    """One contact on its way through one version of an automation.

    `state` is waiting (due at `due_time`), held (it fell due while its automation was paused; `due_time` stays as it
    was) or ended. A run has no lease: what it does is written in the transaction that has locked its row
    (docs/decisions/021-automations-without-leases.md).

    `entry_key` makes "once" a matter of a unique index. 0 takes the contact's only place in the automation: entering is
    one `INSERT … ON CONFLICT DO NOTHING`. A contact that may enter again gives the place up by the run's own id as its
    key: `never` not at all, `when ended` at the end, `always` from the start, and `always` with a least time when that
    time has passed.
    """

    __tablename__ = "automation_runs"
    __table_args__ = (
        UniqueConstraint("automation_id", "contact_id", "entry_key"),
        Index("ix_automation_runs_page", "automation_id", "trigger_time", "id"),
        partial_index("ix_automation_runs_due", "account_id", "due_time", "id", where="state = 'waiting'"),
        partial_index("ix_automation_runs_next", "due_time", where="state = 'waiting'"),
        partial_index("ix_automation_runs_contact", "contact_id", where="state <> 'ended'"),
        partial_index("ix_automation_runs_live", "automation_id", "state", "step", where="state <> 'ended'"),
        partial_index("ix_automation_runs_ended", "end_time", where="state = 'ended' AND entry_key <> 0"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    automation_id: Mapped[int] = mapped_column(BigId, ForeignKey("automations.id", ondelete="CASCADE"))
    version_id: Mapped[int] = mapped_column(BigId, ForeignKey("automation_versions.id", ondelete="CASCADE"))
    list_id: Mapped[BigInt]
    contact_id: Mapped[BigInt]
    """No foreign key: the run is kept when the contact is deleted, and ends."""
    entry_key: Mapped[BigInt]
    trigger_time: Mapped[datetime]
    """When the trigger fired that the contact entered by."""
    state: Mapped[Impersonal]
    reason: Mapped[Impersonal | None]
    """Why it ended or is held."""
    step: Mapped[Impersonal | None]
    """The name of the step that is next; None when it has ended."""
    step_time: Mapped[datetime | None]
    """When the run came to that step, if it waits in it; None if it has not looked at it yet."""
    due_time: Mapped[datetime]
    attempts: Mapped[int] = mapped_column(default=0)
    """How often it failed in a row."""
    skips_next: Mapped[bool] = mapped_column(default=False)
    """Whether its next message, change or call is skipped, because it fell due in a pause."""
    shifted_seconds: Mapped[BigInt] = mapped_column(default=0)
    """The value of the automation's column when `due_time` was set: what was added there since delays the run."""
    watched_step: Mapped[int | None] = mapped_column(BigId)
    """The id of the step whose message's fate ends the wait."""
    watched_event: Mapped[Impersonal | None]
    """What must become of it: `delivered`, `opened`, `clicked`, `bounced` or `replied`."""
    end_time: Mapped[datetime | None]


class AutomationPassedStep(Base):
    """A step that a run has passed, written in the transaction that carries out the step and moves the run on. The
    unique constraint keeps a step from being carried out twice."""

    __tablename__ = "automation_passed_steps"
    __table_args__ = (
        UniqueConstraint("run_id", "step_id"),
        partial_index("ix_automation_passed_steps_recipient", "recipient_id", where="recipient_id IS NOT NULL"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[Identity]
    account_id: Mapped[AccountId]
    run_id: Mapped[int] = mapped_column(BigId, ForeignKey("automation_runs.id", ondelete="CASCADE"))
    step_id: Mapped[BigInt]
    time: Mapped[datetime]
    result: Mapped[Impersonal]
    """`done` or `skipped`; of a branch `then` or `else`."""
    detail: Mapped[Impersonal | None]
    """Why it was skipped."""
    recipient_id: Mapped[int | None] = mapped_column(BigId)
    """The recipient that the step has sent to. No foreign key: a run may outlive what it sent."""
