"""Carrying out what steps do: messages, changes of contacts, unsubscribing and calls, each for all runs of a chunk that
are at the same step. What cannot be done is refused with a reason, and the step counts as skipped
(docs/automations.md#rules)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.addresses import ADDRESS_KINDS, NormalizedAddress, normalize_address
from app.automations.definition import Call, Send, SetFields, Unsubscribe
from app.automations.walk import Effect
from app.contacts.events import record_contact_events
from app.contacts.subscriptions import unsubscribe_addresses
from app.contacts.update import update_contacts
from app.db.database import Transaction
from app.errors import ServiceError
from app.events.outbox import record_for_webhooks
from app.events.payloads import called_event
from app.lists.find import find_list
from app.recipients.states import FailReason
from app.runs.facts import LoadedRun
from app.sends.accept.automated import StepSend, accept_step

WEBHOOK_MISSING = "webhook missing"
"""Why a call was skipped: the account has deleted the webhook."""
LIST_MISSING = "list missing"


@dataclass(slots=True)
class CarriedOut:
    """What became of the effects of a chunk, by the ids of its runs."""

    recipients: dict[int, int] = field(default_factory=dict)
    """Whom a message was written for."""
    refused: dict[int, str] = field(default_factory=dict)
    """Why nothing was done."""

    def refuse(self, runs: Iterable[LoadedRun], reason: str) -> None:
        """Notes that the steps of these runs cannot be carried out."""
        self.refused |= dict.fromkeys((one.run.id for one in runs), reason)


def carry_out(transaction: Transaction, effects: Sequence[tuple[LoadedRun, Effect]], moment: datetime) -> CarriedOut:
    """Carries out all of them: for each step that any run is at, as many statements for one run as for a thousand.

    Contacts are written before anything else, which is the order of the locks
    (docs/decisions/021-automations-without-leases.md).
    """
    done = CarriedOut()
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
    for one, step in effects:
        key = one.run.account_id, one.version.id, one.version.step_ids[step.name]
        groups.setdefault(key, ([], step))[0].append(one)
    return [groups[key] for key in sorted(groups)]


def _send(transaction: Transaction, runs: Sequence[LoadedRun], step: Send, done: CarriedOut) -> None:
    first = runs[0]
    send = StepSend(
        first.run.account_id,
        first.run.automation_id,
        first.version.step_ids[step.name],
        first.run.list_id,
        step.message_id,
    )
    try:
        ids = accept_step(transaction, send, [one.run.contact_id for one in runs])
    except ServiceError as error:
        done.refuse(runs, error.errors[0].code)
        return
    done.recipients |= {one.run.id: recipient_id for one, recipient_id in zip(runs, ids, strict=True)}


def _set(transaction: Transaction, runs: Sequence[LoadedRun], step: SetFields, done: CarriedOut) -> None:
    """A contact is changed once, however many runs are at the step for it; one that was deleted meanwhile is left
    out."""
    contact_list = find_list(transaction, runs[0].run.account_id, runs[0].run.list_id)
    if contact_list is None:
        done.refuse(runs, LIST_MISSING)
        return
    by_contact: dict[int, list[LoadedRun]] = defaultdict(list)
    for one in runs:
        by_contact[one.run.contact_id].append(one)
    while by_contact:
        ids = sorted(by_contact)
        updates: list[tuple[int, dict[str, Any]]] = [(contact_id, dict(step.values)) for contact_id in ids]
        try:
            update_contacts(transaction, contact_list, updates, bulk=True, allow_system=True, fires=False)
        except ServiceError as error:
            for found in error.errors:
                if found.index is None:
                    raise
                done.refuse(by_contact.pop(ids[found.index], ()), found.code)
        else:
            return


def _unsubscribe(
    transaction: Transaction, runs: Sequence[LoadedRun], step: Unsubscribe, moment: datetime, done: CarriedOut
) -> None:
    account_id, list_id = runs[0].run.account_id, runs[0].run.list_id
    addresses: list[NormalizedAddress] = []
    for one in runs:
        own = _addresses(one, step)
        addresses += own
        if not own:
            done.refuse([one], FailReason.ADDRESS_MISSING)
    second = moment.replace(microsecond=0)
    changed = unsubscribe_addresses(transaction, account_id, list_id, sorted(set(addresses)), second)
    record_contact_events(transaction, account_id, "updated", changed, second)


def _addresses(one: LoadedRun, step: Unsubscribe) -> list[NormalizedAddress]:
    contact = one.contact
    texts = {"email": contact.email, "mobile": contact.mobile} if contact else {}
    kinds = [kind for kind in ADDRESS_KINDS if kind in step.channels]
    return [normalize_address(kind, address) for kind in kinds if (address := texts.get(kind)) is not None]


def _call(transaction: Transaction, runs: Sequence[LoadedRun], step: Call, moment: datetime, done: CarriedOut) -> None:
    payloads = [
        called_event(
            automation_id=one.run.automation_id,
            step_id=one.version.step_ids[step.name],
            contact_id=one.run.contact_id,
            list_id=one.run.list_id,
            moment=moment,
        )
        for one in runs
    ]
    if not record_for_webhooks(transaction, runs[0].run.account_id, {step.webhook_id: payloads}):
        done.refuse(runs, WEBHOOK_MISSING)
