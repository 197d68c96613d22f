"""What the rules judge the runs of a chunk by, in a fixed number of selects whatever their number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import String, bindparam, case, func, not_, select
from sqlalchemy.orm import Session

from app.addresses import ADDRESS_KINDS, AccountAddress
from app.automations.definition import Channel
from app.automations.facts import ContactFacts, Facts, Fate, Passage, Place, StepResult
from app.automations.versions import Version, load_versions
from app.clock import zone_of_account
from app.contacts.row import HIDEABLE_ATTRIBUTES, ContactRow, ContactValues, load_contact_rows
from app.db.database import Transaction
from app.db.expressions import between_ids, in_json, json_array
from app.db.models import Account, AutomationPassedStep, ListField, Recipient, RecipientStep
from app.db.prepared import PreparedStatement
from app.lists.fields import ADDRESS_KEYS
from app.recipients.timeline import TimelineStep
from app.runs.due import DueRun
from app.sends.skipping import Suppressions, load_suppressions, skips
from app.tracking.visits import link_of_detail

# What became of the messages that branches ask about.

EVENT_BY_STEP = {
    TimelineStep.SENT: "delivered",
    TimelineStep.ACKNOWLEDGED: "delivered",
    TimelineStep.REPORTED_ARRIVED: "delivered",
    TimelineStep.BOUNCED: "bounced",
    TimelineStep.OPENED: "opened",
    TimelineStep.CLICKED: "clicked",
    TimelineStep.RECEIVED: "replied",
}
"""Step of the timeline -> what a branch calls it. A click is an open, too. A text message counts as delivered once the
carrier has taken it, as in the report of its step."""


def load_fates(transaction: Transaction, recipient_ids: Collection[int]) -> dict[int, Fate]:
    """The fate of each recipient to whom anything has happened. The recipients are locked: what happens to them from
    here on is written after this transaction, and finds the waits that it writes (app/automations/run_states.py)."""
    if not recipient_ids:
        return {}
    recipient_filter = in_json(Recipient.id, recipient_ids), between_ids(Recipient.id, recipient_ids)
    lock = select(Recipient.id).where(*recipient_filter).order_by(Recipient.id)
    transaction.execute(lock.with_for_update(read=True))
    step = RecipientStep
    first = func.min(step.time, type_=step.time.type)
    statement = (
        select(step.recipient_id, step.step, step.detail, first)
        .where(
            in_json(step.recipient_id, recipient_ids),
            between_ids(step.recipient_id, recipient_ids),
            step.step.in_(EVENT_BY_STEP),
        )
        .group_by(step.recipient_id, step.step, step.detail)
    )
    times: dict[int, dict[str, datetime]] = defaultdict(dict)
    clicks: dict[int, dict[str, datetime]] = defaultdict(dict)
    for recipient_id, name, detail, moment in transaction.execute(statement):
        if name == TimelineStep.CLICKED:
            _earliest(clicks[recipient_id], link_of_detail(name, detail), moment)
            _earliest(times[recipient_id], "opened", moment)
        else:
            _earliest(times[recipient_id], EVENT_BY_STEP[TimelineStep(name)], moment)
    return {
        recipient_id: Fate(**times_by_event, clicked=clicks.get(recipient_id, {}))
        for recipient_id, times_by_event in times.items()
    }


def _earliest(times: dict[str, datetime], name: str, moment: datetime) -> None:
    times[name] = min(times.get(name, moment), moment)


@dataclass(frozen=True, slots=True)
class PassedStep:
    """A step that a run has passed, with the recipient of one that sent."""

    step_id: int
    time: datetime
    result: str
    recipient_id: int | None


@dataclass(frozen=True, slots=True)
class LoadedRun:
    """A due run with its version, its contact where it is in the list still, and what the rules judge by."""

    run: DueRun
    version: Version
    contact: ContactRow | None
    facts: Facts

    @property
    def place(self) -> Place:
        """Where the run is."""
        run = self.run
        return Place(run.step, run.trigger_time, run.step_time, run.due_time, run.skips_next)


PASSED_STEPS = PreparedStatement(
    select(
        AutomationPassedStep.run_id,
        AutomationPassedStep.step_id,
        AutomationPassedStep.time,
        AutomationPassedStep.result,
        AutomationPassedStep.recipient_id,
    ).where(in_json(AutomationPassedStep.run_id, bindparam("ids", type_=String)))
)
HIDDEN_ATTRIBUTES = PreparedStatement(
    select(ListField.list_id, func.sum(case(HIDEABLE_ATTRIBUTES, value=ListField.key, else_=0)).label("hidden"))
    .where(in_json(ListField.list_id, bindparam("ids", type_=String)), not_(in_json(ListField.type, ADDRESS_KEYS)))
    .group_by(ListField.list_id)
)
"""The attributes of contacts that fields of each list hide (app/contacts/row.py)."""


def load_runs(transaction: Transaction, runs: Sequence[DueRun], moment: datetime) -> list[LoadedRun]:
    """The runs with what the rules need: eight statements at most."""
    versions = load_versions(transaction, [run.version_id for run in runs])
    passed = _passed_steps(transaction, runs)
    contacts = load_contact_rows(transaction, [run.contact_id for run in runs])
    keys = [key for contact in contacts.values() for key in _keys(contact).values()]
    suppressions = load_suppressions(transaction, keys, has_digests=any(run.has_digests for run in runs))
    hidden = dict(HIDDEN_ATTRIBUTES.tuples(transaction, ids=json_array({run.list_id for run in runs})))
    asked_about = {run.id: _watched_recipients(versions[run.version_id], passed[run.id]) for run in runs}
    fates = load_fates(transaction, [id_ for by_step in asked_about.values() for id_ in by_step.values()])
    return [
        _loaded_run(
            run,
            versions[run.version_id],
            _contact(run, contacts.get(run.contact_id), hidden.get(run.list_id), suppressions),
            _History(passed[run.id], {name: fates[id_] for name, id_ in asked_about[run.id].items() if id_ in fates}),
            moment,
        )
        for run in runs
    ]


def _passed_steps(transaction: Transaction, runs: Sequence[DueRun]) -> Mapping[int, list[PassedStep]]:
    passed_steps: dict[int, list[PassedStep]] = defaultdict(list)
    for run_id, *passed in PASSED_STEPS.tuples(transaction, ids=json_array(run.id for run in runs)):
        passed_steps[run_id].append(PassedStep(*passed))
    return passed_steps


def _watched_recipients(version: Version, passed: Sequence[PassedStep]) -> dict[str, int]:
    """The recipients of the messages that branches ask about, by the name of the step that sent."""
    if not version.watched:
        return {}
    sent = ((version.step_names.get(step.step_id, ""), step.recipient_id) for step in passed)
    return {name: recipient_id for name, recipient_id in sent if name in version.watched and recipient_id is not None}


@dataclass(frozen=True, slots=True)
class _Contact:
    """A contact as it is stored, and as the rules see it."""

    row: ContactRow
    facts: ContactFacts


@dataclass(frozen=True, slots=True)
class _History:
    """What a run has passed, and what became of what it sent, by the names of the steps."""

    passed: Sequence[PassedStep]
    fates: Mapping[str, Fate]


def _contact(run: DueRun, row: ContactRow | None, hidden: int | None, suppressions: Suppressions) -> _Contact | None:
    """The contact of the run; None if it was deleted."""
    if row is None or row.list_id != run.list_id:
        return None
    refused = refused_channels(row, suppressions, is_test=run.is_test)
    return _Contact(row, _contact_facts(row, run.time_zone, hidden, refused))


def load_contact_facts(session: Session, account: Account, contact_id: int) -> ContactFacts:
    """A contact of the account, which exists."""
    row = load_contact_rows(session, [contact_id])[contact_id]
    hidden = dict(HIDDEN_ATTRIBUTES.tuples(session, ids=json_array([row.list_id])))
    suppressions = load_suppressions(session, _keys(row).values(), has_digests=account.has_digests)
    refused = refused_channels(row, suppressions, is_test=account.test_of is not None)
    return _contact_facts(row, account.time_zone, hidden.get(row.list_id), refused)


def _contact_facts(row: ContactRow, time_zone: str, hidden: int | None, refused: Mapping[Channel, str]) -> ContactFacts:
    """A contact of an account with that time zone; `hidden` as in `HIDDEN_ATTRIBUTES`."""
    return ContactFacts(ContactValues(row, zone_of_account(time_zone), hidden), row.is_active, refused)


def _loaded_run(
    run: DueRun, version: Version, contact: _Contact | None, history: _History, moment: datetime
) -> LoadedRun:
    facts = Facts(
        moment=moment,
        zone=zone_of_account(run.time_zone) or UTC,
        contact=contact.facts if contact else None,
        passed={
            version.step_names[step.step_id]: Passage(step.time, StepResult(step.result))
            for step in history.passed
            if step.step_id in version.step_names
        },
        fates=history.fates,
    )
    return LoadedRun(run, version, contact.row if contact else None, facts)


def _keys(contact: ContactRow) -> dict[Channel, AccountAddress]:
    """The addresses of a contact, as suppressions have them."""
    addresses = {"email": contact.email, "mobile": contact.mobile}
    return {
        kind: AccountAddress.of(contact.account_id, kind, text) for kind in ADDRESS_KINDS if (text := addresses[kind])
    }


def refused_channels(contact: ContactRow, suppressions: Suppressions, *, is_test: bool) -> dict[Channel, str]:
    """Why the contact is sent nothing by a channel: the first reason that a send would have."""
    keys = _keys(contact)
    skips_by_kind = {
        kind: skips(
            keys.get(kind),
            contact,
            suppressions,
            list_id=contact.list_id,
            names_contact=True,
            include_unsubscribed=False,
            is_test=is_test,
        )
        for kind in ADDRESS_KINDS
    }
    return {kind: some[0].reason for kind, some in skips_by_kind.items() if some}
