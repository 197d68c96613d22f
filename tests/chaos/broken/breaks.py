"""Builds that are broken on purpose, each in one place, with the check that must detect it (promises.py).

Every process of the service imports `sitecustomize` from this folder first, which patches the module right after it is
loaded.
"""

from __future__ import annotations

import importlib
import itertools
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy.exc import OperationalError

from tests.chaos.hooks import Change, Hook
from tests.chaos.promises import AFTERWARDS
from tests.chaos.record import WEBHOOK_SPACING


@dataclass(frozen=True, slots=True)
class Break(Hook):
    """One build: besides the patch the fault that exposes it, the check that must find it, and those that may find the
    consequences. Any other one finds something else than what is broken."""

    fault: str
    shows: str
    beside: Sequence[str] = ()


BREAKS: dict[str, Break] = {}
UNREPORTED_CONTACTS = ("contacts more or fewer than the events report", "recipients reported before their contact")
"""What shows contacts without the event of their creation."""
UNFINISHED_RUNS = (
    "runs that did not pass each step once",
    "calls of runs missing or repeated",
    "changes by runs without an event",
    "not at rest",
)
"""What shows runs that wait for something that does not come."""


def breaks(
    name: str, module: str, *, fault: str = "calm", shows: str, beside: Sequence[str] = ()
) -> Callable[[Change], Change]:
    """Registers the patch of a module under a name."""

    def add(change: Change) -> Change:
        BREAKS[name] = Break(module, change, fault, shows, beside)
        return change

    return add


@breaks(
    "no-journal",
    "app.sends.outcomes.attempt_result",
    fault="kill-sender",
    shows="messages doubled that were not in flight",
    beside=("texts doubled on a bind, more than were in flight",),
)
def no_journal(journal: Any) -> None:
    """The relay's answers are not journalled."""
    journal.Journal.append = lambda _self, _attempt_result: None


@breaks(
    "kept-journals",
    "app.sends.outcomes.attempt_result",
    fault="kill-sender",
    shows="left behind",
    beside=("not at rest",),
)
def kept_journals(journal: Any) -> None:
    """Journals of dead workers are kept."""
    unlink = pathlib.Path.unlink

    def unlink_others(path: pathlib.Path, missing_ok: bool = False) -> None:
        if path.suffix != journal.JOURNAL_SUFFIX:
            unlink(path, missing_ok)

    pathlib.Path.unlink = unlink_others  # type: ignore[assignment,method-assign]


@breaks(
    "lost-messages",
    "app.sends.delivery.sender_worker",
    shows="accepted messages lost",
    beside=("recipients in a wrong state",),
)
def lost_messages(sender_worker: Any) -> None:
    """One message in 25 counts as delivered without being sent."""
    send_over, numbers = sender_worker.send_over, itertools.count()

    def forgetful(slot: Any, built: Any, *others: Any, **named: Any) -> Any:
        if next(numbers) % 25:
            return send_over(slot, built, *others, **named)
        slot.close()  # the relay may be waiting for just this message
        base = importlib.import_module("app.transports.base")  # not at the top: it loads what is to be patched
        return base.DeliveryResult.accepted("250 never sent")

    sender_worker.send_over = forgetful


@breaks("doubled-messages", "app.sends.delivery.sender_worker", shows="messages doubled that were not in flight")
def doubled_messages(sender_worker: Any) -> None:
    """One message in 25 is sent twice."""
    transmit, numbers = sender_worker.SenderWorker.transmit, itertools.count()

    def zealous(self: Any, slot: Any, built: Any, *others: Any, **named: Any) -> Any:
        if next(numbers) % 25 == 0:
            transmit(self, slot, built)
        return transmit(self, slot, built, *others, **named)

    sender_worker.SenderWorker.transmit = zealous


@breaks("miscounted-groups", "app.sends.outcomes.write", shows="groups that miscount", beside=("hours that miscount",))
def miscounted_groups(write: Any) -> None:
    """The last one of the outcomes that are written together is not counted."""
    count = write._count
    write._count = lambda transaction, made: count(transaction, made[:-1] or made)


@breaks(
    "dropped-events",
    "app.events.outbox",
    shows="events of recipients missing",
    beside=("changes of contacts without an event", *UNREPORTED_CONTACTS),
)
def dropped_events(outbox: Any) -> None:
    """One event in 20 is not recorded."""
    record_many, numbers = outbox.record_many, itertools.count(1)

    def careless(transaction: Any, payloads_by_account: Mapping[int, Any]) -> None:
        kept = {
            account: [payload for payload in payloads if next(numbers) % 20]
            for account, payloads in payloads_by_account.items()
        }
        record_many(transaction, kept)

    outbox.record_many = careless


@breaks(
    "reordered-events",
    "app.events.batch_contents",
    shows="changes of contacts out of order",
    beside=("recipients reported before their contact",),
)
def reordered_events(contents: Any) -> None:
    """The newest event of a batch comes first."""
    batch_payloads = contents.batch_payloads
    contents.batch_payloads = lambda transaction, webhook: batch_payloads(transaction, webhook)[::-1]


@breaks("another-jti", "app.events.batch_contents", fault="receiver-closes", shows="batches not repeated next")
def another_jti(contents: Any) -> None:
    """A batch that failed gets a new `jti` when it is retried."""
    batch_payloads = contents.batch_payloads

    def forgetful(transaction: Any, webhook: Any) -> Any:
        webhook.batch_end = None
        return batch_payloads(transaction, webhook)

    contents.batch_payloads = forgetful


@breaks(
    "growing-batches", "app.events.batch_contents", fault="receiver-closes", shows="batches that changed their events"
)
def growing_batches(contents: Any) -> None:
    """A batch that failed also contains newer events when it is retried."""
    batch_payloads = contents.batch_payloads

    def greedy(transaction: Any, webhook: Any) -> Any:
        name, webhook.batch_end = webhook.batch_id, None
        payloads = batch_payloads(transaction, webhook)
        webhook.batch_id = name or webhook.batch_id
        return payloads

    contents.batch_payloads = greedy


@breaks(
    "kept-webhooks",
    "app.events.batch_contents",
    shows="not at rest",
    beside=(
        "left behind",
        "events of recipients missing",
        "changes of contacts without an event",
        "contacts more or fewer than the events report",
    ),
)
def kept_webhooks(webhook_lease: Any) -> None:
    """The lease of a webhook is never released."""
    webhook_lease.LockedWebhook.release_lease = lambda _self: None


@breaks("half-written", "app.db.bulk", shows="requests half done", beside=UNREPORTED_CONTACTS)
def half_written(bulk: Any) -> None:
    """One bulk write of contacts in five fails in the middle, and its first half is kept."""
    insert, numbers = bulk._insert, itertools.count()

    def clumsy(session: Any, table: Any, shared: Any, rows: Sequence[Any], **options: Any) -> Any:
        if table.name != "contacts" or len(rows) < 2 or next(numbers) % 5:
            return insert(session, table, shared, rows, **options)
        insert(session, table, shared, rows[: len(rows) // 2], **options)
        session.commit()
        raise OperationalError("INSERT", None, Exception("broken on purpose"))

    bulk._insert = clumsy


@breaks(
    "steps-in-two-commits",
    "app.runs.advance",
    fault="kill-automations",
    shows="messages of steps that no run has passed",
    beside=("messages of steps doubled", "messages doubled that were not in flight", *UNFINISHED_RUNS),
)
def steps_in_two_commits(effects: Any) -> None:
    """What steps do is committed a moment before the steps are marked as passed."""
    carry_out = effects.carry_out

    def hasty(transaction: Any, *arguments: Any) -> Any:
        done = carry_out(transaction, *arguments)
        if done.recipients:
            transaction.commit()
            time.sleep(0.5)
        return done

    effects.carry_out = hasty


@breaks(
    "messages-left-out",
    "app.runs.advance",
    fault="kill-automations",
    shows="steps passed without their message",
    beside=UNFINISHED_RUNS,
)
def messages_left_out(effects: Any) -> None:
    """One chunk in 20 passes its steps without their messages."""
    carry_out, numbers = effects.carry_out, itertools.count(1)

    def careless(transaction: Any, chosen: Any, moment: Any) -> Any:
        kept = chosen if next(numbers) % 20 else []
        return carry_out(transaction, kept, moment)

    effects.carry_out = careless


@breaks(
    "outcomes-unnoticed",
    "app.automations.run_states",
    fault="kill-automations",
    shows="runs that did not pass each step once",
    beside=UNFINISHED_RUNS,
)
def outcomes_unnoticed(watches: Any) -> None:
    """What becomes of a message does not end the wait for it."""
    watches.end_waits = lambda *_: None


@breaks("hasty-webhooks", "app.events.batches", shows="requests to a webhook in quick succession")
def hasty_webhooks(batches: Any) -> None:
    """Requests to a webhook follow at once."""

    def unspaced(**parts: float) -> timedelta:
        return timedelta() if parts == {"seconds": WEBHOOK_SPACING} else timedelta(**parts)

    batches.timedelta = unspaced


@breaks(
    "overlapping-webhooks",
    "app.events.batches",
    fault="receiver-hangs",
    shows="requests to a webhook that overlap",
)
def overlapping_webhooks(batches: Any) -> None:
    """The lease of a webhook ends at once."""
    batches.LEASE_SECONDS = 0.0


@breaks("stale-values", "app.contacts.update", shows="contacts without the values of their last change")
def stale_values(updates: Any) -> None:
    """Each second change of contacts is reported, and not written."""
    update_rows, numbers = updates._update_rows, itertools.count(1)

    def careless(transaction: Any, changed: Any, moment: Any) -> None:
        update_rows(transaction, changed if next(numbers) % 2 else [], moment)

    updates._update_rows = careless


@breaks("stale-reports", "app.groups.read", shows="groups that the API counts otherwise")
def stale_reports(read: Any) -> None:
    """The API shows no delivered messages of groups."""
    page_groups = read.page_groups

    def stale(*arguments: Any) -> Any:
        page = page_groups(*arguments)
        for item in page.items:
            item["delivered"] = 0
        return page

    read.page_groups = stale


@breaks("hasty-refusals", "app.http.errors", fault="sqlite-locked", shows="503s without Retry-After")
def hasty_refusals(errors: Any) -> None:
    """A 503 has no `Retry-After`."""
    errors.RETRY_AFTER = ""


@breaks(
    "kept-claims",
    "app.http.idempotency",
    shows="wrong 409s",
    beside=("requests repeated in vain", "left behind", "not at rest"),
)
def kept_claims(idempotency: Any) -> None:
    """One request in 15 fails at the end, and its idempotency key stays claimed."""
    remember, numbers = idempotency._store_response, itertools.count(1)

    def failing(*arguments: Any) -> None:
        remember(*arguments)
        if next(numbers) % 15 == 0:
            raise OperationalError("UPDATE", None, Exception("broken on purpose"))

    idempotency._store_response, idempotency._release_claim = failing, lambda *_: None
    idempotency._is_free = lambda _row: False


@breaks(
    "forgotten-receipts", "app.inbound.smpp", shows="receipts not written once", beside=("recipients in a wrong state",)
)
def forgotten_receipts(smpp: Any) -> None:
    """One receipt in five is confirmed to the gateway and not written."""
    take, numbers = smpp._take_receipt, itertools.count(1)
    smpp._take_receipt = lambda *arguments: take(*arguments) if next(numbers) % 5 else True


@breaks("dropped-attachments", "app.transports.email.mime", shows="mails without exactly their attachments")
def dropped_attachments(mime: Any) -> None:
    """A mail has only the first of its attachments."""
    content = mime._content
    mime._content = lambda html, text, attachments, boundary: content(html, text, attachments[:1], boundary)


@breaks(
    "hasty-purging",
    "app.retention.slices",
    fault="purge-while-sending",
    shows="accepted messages lost",
    beside=(
        "recipients in a wrong state",
        "mails for another recipient",
        "mails without exactly their attachments",
        "mails of requests that were undone",  # since their subject is gone, too
    ),
)
def hasty_purging(slices: Any) -> None:
    """Content of sends is purged although some of their recipients wait."""
    slices._waiting = lambda *_: {}


@breaks("no-overlap", "app.accounts.keys", fault="key-rotated", shows="other refusals", beside=(AFTERWARDS,))
def no_overlap(keys: Any) -> None:
    """The former secret of a key ends when it is rotated."""
    rotate = keys.rotate_key
    keys.rotate_key = lambda session, key, _overlap: rotate(session, key, timedelta(0))
