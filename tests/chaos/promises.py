"""The promises of docs/reliability.md by the words that begin their rows, and which of them each check is of."""

from __future__ import annotations

from enum import StrEnum


class Promise(StrEnum):
    """The first cell of its row."""

    LOST = "an accepted message is lost"
    MAIL_TWICE = "a mail is sent twice"
    TEXT_TWICE = "a text message is sent twice"
    WHOLE = "a message arrives whole"
    RECEIPT = "the receipt of a text message that was confirmed to the gateway is lost"
    CONFLICT = "a request repeated with its `Idempotency-Key` gets a 409"
    REFUSAL = "a refusal"
    ANSWER = "any answer"
    WORK = "the work of a refused request"
    VALUES = "a contact that was changed"
    AUTOMATION = "a contact that enters an automation"
    COUNTERS = "a group's counters, and those of its hours"
    EVENT = "an event"
    SPACING = "the requests to a webhook"
    STALL = "a webhook with events"
    RESUMING = "accepting and sending"
    LEFT_BEHIND = "leases, claims and files of dead processes"
    COMMAND = "a command that was killed"
    FOLDER = "a data folder"
    BACKUP = "a backup under load"
    RESTORED = "a restored backup"
    ROTATED_KEY = "a rotated key of the API"
    LINKS = "links in mails, and signatures of webhooks"
    PURGING = "purging"
    FORGETTING = "forgetting a person"
    CLOCK = "a clock that is set"


AFTERWARDS = "what the fault itself checks"
ENDED = "a service that ended by itself"
FAILED_ROUND = "the round could not be carried out"

TIMES = {"accepting requests again", "sending again", "sending texts again", "the longest stall of a webhook"}
"""Checks that a busy machine alone may violate."""
CHECKS: dict[str, Promise | None] = {
    "accepted messages lost": Promise.LOST,
    "accepted messages that the database does not have": Promise.LOST,
    "recipients in a wrong state": Promise.LOST,
    "messages doubled that were not in flight": Promise.MAIL_TWICE,
    "texts doubled on a bind, more than were in flight": Promise.TEXT_TWICE,
    "mails for another recipient": Promise.WHOLE,
    "texts that are not whole": Promise.WHOLE,
    "mails without exactly their attachments": Promise.WHOLE,
    "receipts not written once": Promise.RECEIPT,
    "wrong 409s": Promise.CONFLICT,
    "requests repeated in vain": Promise.RESUMING,
    "requests cut off": Promise.REFUSAL,
    "503s without Retry-After": Promise.REFUSAL,
    "other refusals": Promise.REFUSAL,
    "answers that took too long": Promise.ANSWER,
    "requests without an answer in time": Promise.ANSWER,
    "mails of requests that were undone": Promise.WORK,
    "texts of requests that were undone": Promise.WORK,
    "recipients written twice": Promise.WORK,
    "requests half done": Promise.WORK,
    "answered requests whose work is gone": Promise.WORK,
    "contacts without the values of their last change": Promise.VALUES,
    "contacts that did not enter an automation once": Promise.AUTOMATION,
    "runs that did not pass each step once": Promise.AUTOMATION,
    "steps passed without their message": Promise.AUTOMATION,
    "messages of steps that no run has passed": Promise.AUTOMATION,
    "messages of steps doubled": Promise.AUTOMATION,
    "calls of runs missing or repeated": Promise.AUTOMATION,
    "changes by runs without an event": Promise.AUTOMATION,
    "timelines without exactly one end": Promise.COUNTERS,
    "groups that miscount": Promise.COUNTERS,
    "hours that miscount": Promise.COUNTERS,
    "groups that the API counts otherwise": Promise.COUNTERS,
    "deliveries without a valid signature": Promise.LINKS,
    "batches that changed their events": Promise.EVENT,
    "batches not repeated next": Promise.EVENT,
    "events of recipients missing": Promise.EVENT,
    "events of recipients without an outcome": Promise.EVENT,
    "events of recipients reported twice": Promise.EVENT,
    "changes of contacts reported twice": Promise.EVENT,
    "contacts more or fewer than the events report": Promise.EVENT,
    "recipients reported before their contact": Promise.EVENT,
    "changes of contacts without an event": Promise.EVENT,
    "changes of contacts out of order": Promise.EVENT,
    "requests to a webhook that overlap": Promise.SPACING,
    "requests to a webhook in quick succession": Promise.SPACING,
    "the longest stall of a webhook": Promise.STALL,
    "accepting requests again": Promise.RESUMING,
    "sending again": Promise.RESUMING,
    "sending texts again": Promise.RESUMING,
    ENDED: Promise.RESUMING,
    "left behind": Promise.LEFT_BEHIND,
    "not at rest": Promise.LEFT_BEHIND,
    "forgotten people that are still there": Promise.FORGETTING,
    "messages without an address whose recipient was not forgotten": Promise.FORGETTING,
    "messages to forgotten people that have not ended": Promise.FORGETTING,
    AFTERWARDS: None,
    FAILED_ROUND: None,
}
"""The name of each check -> the promise that it is of; None for those that are of the fault's own."""
