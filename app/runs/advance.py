"""Advancing runs: how far each goes, what its steps do, and writing where it has come to."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Update, update

from app.addresses import ADDRESS_KINDS, NormalizedAddress, normalize_address
from app.automations.definition import Branch, Call, Outcome, Send, SetFields, Unsubscribe
from app.automations.facts import SkipReason
from app.automations.run_states import ended_columns, gives_up_place
from app.automations.versions import Version, load_versions
from app.automations.walk import Effect, RunEnd, RunWait, Walk, refused, walk
from app.clock import now
from app.contacts.events import record_contact_events
from app.contacts.subscriptions import unsubscribe_addresses
from app.contacts.update import update_contacts
from app.db.bulk import BulkUpdate, RowValues, insert_rows
from app.db.counters import STEP_COUNTS, count
from app.db.database import Transaction
from app.db.models import AutomationPassedStep, AutomationRun, table_of
from app.errors import ServiceError
from app.events.outbox import called_event, record_for_webhooks
from app.infrastructure.metrics import AUTOMATION_DELAY, AUTOMATION_ENDS, AUTOMATION_STEPS
from app.lists.find import find_list
from app.recipients.states import FailReason
from app.runs.due import DueRun, read_runs
from app.runs.facts import LoadedRun, load_runs
from app.runs.pause import DELETION_REASON, FAILURE_REASON, PAUSE_REASON
from app.sends.accept.automated import StepSend, accept_step

logger = logging.getLogger(__name__)


WEBHOOK_MISSING = "webhook missing"
"""Why a call was skipped: the account has deleted the webhook."""
LIST_MISSING = "list missing"


@dataclass(slots=True)
class EffectResults:
    """What became of the effects of a chunk, by the ids of its runs."""

    recipients: dict[int, int] = field(default_factory=dict)
    """Id of a run -> the recipient that a message was written for."""
    refused: dict[int, str] = field(default_factory=dict)
    """Id of a run -> why the effect of its step was refused."""

    def refuse(self, runs: Iterable[LoadedRun], reason: str) -> None:
        """Notes that the steps of these runs cannot be carried out."""
        self.refused |= dict.fromkeys((loaded_run.run.id for loaded_run in runs), reason)


def carry_out(transaction: Transaction, effects: Sequence[tuple[LoadedRun, Effect]], moment: datetime) -> EffectResults:
    """Carries out all of them: for each step that any run is at, as many statements for one run as for a thousand.

    Contacts are written before anything else, which is the order of the locks
    (docs/decisions/021-automations-without-leases.md).
    """
    done = EffectResults()
    for runs, step in sorted(_by_step(effects), key=lambda group: isinstance(group[1], Send | Call)):
        match step:
            case SetFields():
                _set(transaction, runs, step, done)
            case Unsubscribe():
                _unsubscribe(transaction, runs, step, moment, done)
            case Send():
                _send(transaction, runs, step, done)
            case Call():
                _call(transaction, runs, step, moment, done)
    return done


def _by_step(effects: Iterable[tuple[LoadedRun, Effect]]) -> list[tuple[list[LoadedRun], Effect]]:
    """The runs at each step of each version, in one order for all workers."""
    groups: dict[tuple[int, int, int], tuple[list[LoadedRun], Effect]] = {}
    for loaded_run, step in effects:
        key = loaded_run.run.account_id, loaded_run.version.id, loaded_run.version.step_ids[step.name]
        groups.setdefault(key, ([], step))[0].append(loaded_run)
    return [groups[key] for key in sorted(groups)]


def _send(transaction: Transaction, runs: Sequence[LoadedRun], step: Send, done: EffectResults) -> None:
    first = runs[0]
    send = StepSend(
        first.run.account_id,
        first.run.automation_id,
        first.version.step_ids[step.name],
        first.run.list_id,
        step.message_id,
    )
    try:
        ids = accept_step(transaction, send, [loaded_run.run.contact_id for loaded_run in runs])
    except ServiceError as error:
        done.refuse(runs, error.errors[0].code)
        return
    done.recipients |= {loaded_run.run.id: recipient_id for loaded_run, recipient_id in zip(runs, ids, strict=True)}


def _set(transaction: Transaction, runs: Sequence[LoadedRun], step: SetFields, done: EffectResults) -> None:
    """A contact is changed once, however many runs are at the step for it; one that was deleted meanwhile is left
    out."""
    contact_list = find_list(transaction, runs[0].run.account_id, runs[0].run.list_id)
    if contact_list is None:
        done.refuse(runs, LIST_MISSING)
        return
    by_contact: dict[int, list[LoadedRun]] = defaultdict(list)
    for loaded_run in runs:
        by_contact[loaded_run.run.contact_id].append(loaded_run)
    while by_contact:
        ids = sorted(by_contact)
        updates: list[tuple[int, dict[str, Any]]] = [(contact_id, dict(step.values)) for contact_id in ids]
        try:
            update_contacts(transaction, contact_list, updates, bulk=True, allow_system=True, fires=False)
        except ServiceError as error:
            for field_error in error.errors:
                if field_error.index is None:
                    raise
                done.refuse(by_contact.pop(ids[field_error.index], ()), field_error.code)
        else:
            return


def _unsubscribe(
    transaction: Transaction, runs: Sequence[LoadedRun], step: Unsubscribe, moment: datetime, done: EffectResults
) -> None:
    account_id, list_id = runs[0].run.account_id, runs[0].run.list_id
    addresses: list[NormalizedAddress] = []
    for loaded_run in runs:
        run_addresses = _addresses(loaded_run, step)
        addresses += run_addresses
        if not run_addresses:
            done.refuse([loaded_run], FailReason.ADDRESS_MISSING)
    second = moment.replace(microsecond=0)
    changed = unsubscribe_addresses(transaction, account_id, list_id, sorted(set(addresses)), second)
    record_contact_events(transaction, account_id, "updated", changed, second)


def _addresses(loaded_run: LoadedRun, step: Unsubscribe) -> list[NormalizedAddress]:
    contact = loaded_run.contact
    texts = {"email": contact.email, "mobile": contact.mobile} if contact else {}
    kinds = [kind for kind in ADDRESS_KINDS if kind in step.channels]
    return [normalize_address(kind, address) for kind in kinds if (address := texts.get(kind)) is not None]


def _call(
    transaction: Transaction, runs: Sequence[LoadedRun], step: Call, moment: datetime, done: EffectResults
) -> None:
    payloads = [
        called_event(
            automation_id=loaded_run.run.automation_id,
            step_id=loaded_run.version.step_ids[step.name],
            contact_id=loaded_run.run.contact_id,
            list_id=loaded_run.run.list_id,
            moment=moment,
        )
        for loaded_run in runs
    ]
    if not record_for_webhooks(transaction, runs[0].run.account_id, {step.webhook_id: payloads}):
        done.refuse(runs, WEBHOOK_MISSING)


WRITTEN_COLUMNS = (
    *("state", "reason", "step", "step_time", "due_time", "attempts", "skips_next", "shifted_seconds"),
    *("watched_step", "watched_event", "end_time", "entry_key"),
)
"""Columns of a run that change when it is due."""


@dataclass(frozen=True, slots=True)
class Move:
    """What a run did at a moment."""

    loaded: LoadedRun
    walk: Walk
    recipients: Mapping[int, int]
    """Id of a run -> the recipient that a message was written for."""


def write_moves(transaction: Transaction, moves: Sequence[Move], moment: datetime) -> None:
    """Writes the steps that the runs have passed. The unique index refuses a step that was passed before, and with it
    the whole transaction."""
    rows = [row for move in moves for row in _passed_rows(move)]
    insert_rows(transaction, AutomationPassedStep, rows, {"time": moment})
    counts = Counter((row["account_id"], row["step_id"], row["result"]) for row in rows)
    for (account_id, step_id, result), passed in counts.items():
        count(transaction, STEP_COUNTS, account_id, (step_id, result), passed=passed)
    update_runs(transaction, [_moved(move, moment) for move in moves])


def update_runs(transaction: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes the columns of runs that are locked; the rows are those of `unmoved`, with what has changed."""
    _UPDATE_RUNS.run(transaction, sorted(rows, key=lambda row: row["row"]))


def unmoved(run: DueRun, **changed: Any) -> dict[str, Any]:
    """The columns of a run that stays where it is, but for what has changed."""
    return {
        "row": run.id,
        "state": "waiting",
        "reason": None,
        "step": run.step,
        "step_time": run.step_time,
        "due_time": run.due_time,
        "attempts": 0,
        "skips_next": run.skips_next,
        "shifted_seconds": run.automation_shifted_seconds,
        "watched_step": run.watched_step,
        "watched_event": run.watched_event,
        "end_time": None,
        "entry_key": run.entry_key,
        **changed,
    }


def _update_statement(row: RowValues) -> Update:
    runs = table_of(AutomationRun)
    return update(runs).where(runs.c.id == row["row"]).values({name: row[name] for name in WRITTEN_COLUMNS})


_UPDATE_RUNS = BulkUpdate(
    {"row": AutomationRun.id.type, **{name: table_of(AutomationRun).c[name].type for name in WRITTEN_COLUMNS}},
    _update_statement,
)


def _passed_rows(move: Move) -> Iterator[dict[str, Any]]:
    run, walk = move.loaded.run, move.walk
    for passed in walk.passed:
        sent = walk.effect is not None and passed.step == walk.effect.name
        yield {
            "account_id": run.account_id,
            "run_id": run.id,
            "step_id": move.loaded.version.step_ids[passed.step],
            "result": passed.result.value,
            "detail": passed.detail,
            "recipient_id": move.recipients.get(run.id) if sent else None,
        }


def _moved(move: Move, moment: datetime) -> dict[str, Any]:
    run, version, following = move.loaded.run, move.loaded.version, move.walk.next
    if isinstance(following, RunEnd):
        return ended(run, version, following.reason, moment)
    at_once = following.step_time is None
    skipped = any(passed.detail == SkipReason.PAUSED for passed in move.walk.passed)
    return unmoved(
        run,
        step=following.step,
        step_time=following.step_time,
        due_time=following.due_time,
        skips_next=run.skips_next and at_once and not skipped,
        **_watched(version, following),
    )


def ended(run: DueRun, version: Version, reason: str, moment: datetime) -> dict[str, Any]:
    """The columns of a run that ends."""
    gives_up = gives_up_place(version.definition.entry, reason)
    return unmoved(run, **ended_columns(reason, moment), entry_key=run.id if gives_up else run.entry_key)


def _watched(version: Version, waiting: RunWait) -> dict[str, Any]:
    step = version.definition.step(waiting.step)
    if waiting.watched is None or not (isinstance(step, Branch) and isinstance(step.on, Outcome)):
        return {"watched_step": None, "watched_event": None}
    return {"watched_step": version.step_ids[waiting.watched], "watched_event": step.on.did}


FIRST_DELAY = timedelta(seconds=30)
MAX_DELAY = timedelta(hours=1)
MAX_ATTEMPTS = 12
"""Failures in a row, over five hours in all, after which a run ends."""


@dataclass(slots=True)
class ChunkResult:
    """What became of a chunk of due runs."""

    runs: int = 0
    steps: int = 0
    messages: int = 0
    put_aside: list[int] = field(default_factory=list)
    """Runs whose next step unsubscribes, which needs a lock that comes before theirs."""


def advance(transaction: Transaction, ids: Collection[int], *, may_unsubscribe: bool = False) -> ChunkResult:
    """Advances due runs that this transaction has locked."""
    moment = now()
    runs = read_runs(transaction, ids)
    ready = [run for run in map(_shifted, runs) if run.automation_state == "active" and run.due_time <= moment]
    _leave(transaction, runs, moment)
    loaded = load_runs(transaction, ready, moment) if ready else []
    walks, failed = _walk_all(loaded)
    aside = [
        loaded_run.run.id
        for loaded_run, walked in walks
        if isinstance(walked.effect, Unsubscribe) and not may_unsubscribe
    ]
    walks = [(loaded_run, walked) for loaded_run, walked in walks if loaded_run.run.id not in set(aside)]
    done = carry_out(
        transaction, [(loaded_run, walked.effect) for loaded_run, walked in walks if walked.effect], moment
    )
    moves = [
        Move(
            loaded_run,
            _walk_after_effect(loaded_run, walked, done.refused.get(loaded_run.run.id), moment),
            done.recipients,
        )
        for loaded_run, walked in walks
    ]
    write_moves(transaction, moves, moment)
    put_off(transaction, failed, moment)
    _count(transaction, moves)
    steps = sum(len(move.walk.passed) for move in moves)
    return ChunkResult(len(runs) - len(aside), steps, len(done.recipients), aside)


def put_off(transaction: Transaction, failed: Sequence[DueRun], moment: datetime) -> None:
    """Delays runs that have failed, longer each time, and ends them at last."""
    rows = []
    for run in failed:
        attempts = run.attempts + 1
        if attempts >= MAX_ATTEMPTS:
            rows.append(unmoved(run, **_failed_columns(transaction, run, moment), attempts=attempts))
        else:
            delay = min(FIRST_DELAY * 2 ** min(run.attempts, 20), MAX_DELAY)
            rows.append(unmoved(run, attempts=attempts, reason=FAILURE_REASON, due_time=moment + delay))
    update_runs(transaction, rows)


def _failed_columns(transaction: Transaction, run: DueRun, moment: datetime) -> dict[str, Any]:
    """A run that ends since it has failed too often gives up its place like any other, unless its version cannot be
    read: that may be why it failed."""
    columns = ended_columns(FAILURE_REASON, moment)
    try:
        version = load_versions(transaction, [run.version_id])[run.version_id]
    except (LookupError, TypeError, ValueError, ServiceError):
        return columns
    return {**columns, "entry_key": run.id} if gives_up_place(version.definition.entry, FAILURE_REASON) else columns


def _shifted(run: DueRun) -> DueRun:
    """The run with what pauses have added to its due time since that was set. The first wait of one that has not begun
    counts from there, too."""
    added = timedelta(seconds=max(0, run.automation_shifted_seconds - run.shifted_seconds))
    return run._replace(due_time=run.due_time + added, trigger_time=run.trigger_time + added) if added else run


def _leave(transaction: Transaction, runs: Sequence[DueRun], moment: datetime) -> None:
    """Leaves what a pause has shifted, holds what falls due while its automation is paused, and ends what has begun
    while it was being deleted."""
    rows = []
    for run in runs:
        shifted = _shifted(run)
        if shifted.due_time > moment:
            rows.append(unmoved(shifted, attempts=run.attempts))
        elif run.automation_state == "deleted":
            rows.append(unmoved(run, **ended_columns(DELETION_REASON, moment), entry_key=run.id))
        elif run.automation_state != "active":
            # It keeps what it has missed of the pause in which it entered, and what has still to be added: not only to
            # when it is due, but to when its first wait began.
            held = {"state": "held", "reason": PAUSE_REASON, "shifted_seconds": run.shifted_seconds}
            rows.append(unmoved(run, attempts=run.attempts, **held))
    update_runs(transaction, rows)


def _walk_all(loaded: Sequence[LoadedRun]) -> tuple[list[tuple[LoadedRun, Walk]], list[DueRun]]:
    """The walks, and the runs that failed."""
    walks, failed = [], []
    for loaded_run in loaded:
        try:
            walks.append((loaded_run, walk(loaded_run.version.definition, loaded_run.place, loaded_run.facts)))
        except Exception:
            logger.exception("cannot advance a run", extra={"run": loaded_run.run.id, "step": loaded_run.run.step})
            failed.append(loaded_run.run)
    return walks, failed


def _walk_after_effect(loaded_run: LoadedRun, walked: Walk, reason: str | None, moment: datetime) -> Walk:
    return walked if reason is None else refused(loaded_run.version.definition, walked, reason, moment)


def _count(transaction: Transaction, moves: Sequence[Move]) -> None:
    """Counts for the metrics once all is committed."""
    results = Counter(passed.result.value for move in moves for passed in move.walk.passed)
    for result, number in results.items():
        transaction.after_commit(partial(AUTOMATION_STEPS.labels(result).inc, number))
    for move in moves:
        due_time, facts = move.loaded.run.due_time, move.loaded.facts
        transaction.after_commit(partial(AUTOMATION_DELAY.observe, (facts.moment - due_time).total_seconds()))
        if isinstance(move.walk.next, RunEnd):
            transaction.after_commit(AUTOMATION_ENDS.labels(move.walk.next.reason.value).inc)
