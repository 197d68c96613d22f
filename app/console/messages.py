"""Searching messages, and one message with what to do about it (docs/console-messages.md#messages)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.accounts.sessions import BrowserSession
from app.addresses import ADDRESS_KIND_BY_TYPE, normalize_address
from app.console.automations import path_of_automation
from app.console.groups import path_of_group
from app.console.lists import path_of_list
from app.console.message_search import page_messages, resource_for, rows_of
from app.console.queries import SearchPage, SearchRequest
from app.console.stored_messages import PATH as STORED_MESSAGES_PATH
from app.db.database import Transaction
from app.db.models import Account, Automation, Contact, List, Recipient, RecipientStep, Send
from app.db.models import Message as StoredMessage
from app.db.replica import ReportsDatabase
from app.errors import ServiceError
from app.ids import UUID, shown_id
from app.infrastructure.redis_client import SENDS
from app.query.conditions import Query
from app.query.parameters import check_visible
from app.query.reader import Page
from app.recipients.read import Viewer, find_recipient, latest_steps, require_recipient
from app.recipients.states import UNSETTLED_STATES
from app.sends.cancel import CANCELLABLE
from app.sends.explain.recipient import Explanation, explain_recipient
from app.sends.outcomes.requeue import requeue
from app.services import Services
from app.suppressions.acts import remove_blocked, remove_unsubscribed

PATH = "/console/messages"
MAX_STEPS = 200
MAX_EXPORTED_MESSAGES = 100_000
"""Messages of the file with all that a query finds."""
SOON, LATER = 3, 10
"""Seconds after which a page is renewed."""
FRESH_FOR = timedelta(hours=1)
"""How long the page of a message waits for opens, clicks and reports after the message was sent."""
REMEDIES = {("suppressions", "unblock"): "unblock", ("suppressions", "resubscribe"): "resubscribe"}
"""Command -> what the console does in its place, beside `sends retry`."""


def search(search_request: SearchRequest, viewer: Viewer) -> SearchPage:
    """The account's messages that match, the newest first. Raises the errors of the query."""
    check_visible(search_request.pairs, viewer.hidden_filters)

    def read(session: Session, account_id: int, query: Query) -> Page:
        return page_messages(session, account_id, query, viewer)

    search_page = search_request.read_page(PATH, resource_for(viewer), read)
    items = rows_of(search_request.session, search_request.account_id, search_page.items, viewer)
    return replace(search_page, items=items)


def all_parts(
    reports: ReportsDatabase, search_request: SearchRequest, viewer: Viewer
) -> Iterator[Sequence[dict[str, Any]]]:
    """All of the account's messages that match, the newest first, up to a maximum. Raises the errors of the query
    before the first part."""
    check_visible(search_request.pairs, viewer.hidden_filters)
    return Parts(reports, search_request.account_id, search_request.query(PATH, resource_for(viewer)), viewer)


class Parts:
    """The messages of a query, part by part: each is read by a session of its own, which begins where the one before
    ended. No part is kept until the next one is asked for: a reader may take its time."""

    def __init__(self, reports: ReportsDatabase, account_id: int, query: Query, viewer: Viewer) -> None:
        self._reports = reports
        self._account_id = account_id
        self._viewer = viewer
        self._query: Query | None = query
        self._left = MAX_EXPORTED_MESSAGES // query.limit

    def __iter__(self) -> Iterator[Sequence[dict[str, Any]]]:
        return self

    def __next__(self) -> Sequence[dict[str, Any]]:
        if self._query is None or not self._left:
            raise StopIteration
        with self._reports.read(self._account_id) as session:
            page = page_messages(session, self._account_id, self._query, self._viewer)
        self._left -= 1
        self._query = replace(self._query, position=page.ends.next) if page.ends.has_next else None
        return page.items


def is_live(search_page: SearchPage) -> bool:
    """Whether something that was found will change soon."""
    return any(item["state"] in UNSETTLED_STATES for item in search_page.items)


def renewed_every(recipient: Recipient, state: str, moment: datetime) -> int | None:
    """After how many seconds the page of a message asks again: soon before its outcome, less often for what follows
    that, and then no more."""
    if state in UNSETTLED_STATES:
        return SOON
    is_fresh = recipient.sent_time is not None and moment - recipient.sent_time < FRESH_FOR
    return LATER if is_fresh else None


@dataclass(frozen=True, slots=True)
class Message:
    """A message with its steps, what there is to say about it, and what the reader may do about it here."""

    recipient: Recipient
    explained: Explanation
    steps: Sequence[RecipientStep]
    actions: Sequence[str]


def message_of(session: Session, who: BrowserSession, uuid: str) -> Recipient:
    """A message that somebody may see. Raises `not_found`."""
    if not UUID.fullmatch(uuid):
        raise ServiceError("not_found")
    if who.account_id is not None:
        return session.get_one(Recipient, _find_id(session, who.account_id, uuid, with_tests=who.sees_tests))
    try:
        return find_recipient(session, uuid)
    except ServiceError:
        raise ServiceError("not_found") from None


def _find_id(session: Session, account_id: int, uuid: str, *, with_tests: bool) -> int:
    """The id of the message of the account, or else of its test account."""
    try:
        return require_recipient(session, account_id, uuid)
    except ServiceError:
        test = select(Account.id).where(Account.test_of == account_id)
        test_id = session.scalar(test) if with_tests else None
        if test_id is None:
            raise
        return require_recipient(session, test_id, uuid)


def read_message(session: Session, services: Services, recipient: Recipient) -> Message:
    """What became of the message. Commands name its account."""
    account = session.get_one(Account, recipient.account_id)
    explained = explain_recipient(session, recipient, services.settings, ("--account", account.name))
    steps = latest_steps(session, recipient, MAX_STEPS)
    return Message(recipient, explained, steps, actions_for(explained))


class Fact(NamedTuple):
    """Something known of a message: what it is, its value, and the path of its page, if it has one."""

    label: str
    value: Any
    path: str | None = None


def origin_of(session: Session, recipient: Recipient, viewer: Viewer) -> Iterator[Fact]:
    """Where a message comes from, by name: its subject, its group or automation, its stored message, and its contact.
    What was deleted since has its id."""
    send = session.get_one(Send, recipient.send_id)
    if send.subject and viewer.sees_contacts:
        yield Fact("Subject", send.subject)
    if send.automation_id is None:
        yield Fact("Group", send.group_name, path_of_group(send.group_id))
    else:
        automation = session.get(Automation, send.automation_id)
        yield _named("Automation", automation, send.automation_id, path_of_automation(send.automation_id))
    if (message_id := recipient.message_id) is not None:
        path = f"{STORED_MESSAGES_PATH}/{shown_id(message_id)}"
        yield _named("Stored message", session.get(StoredMessage, message_id), shown_id(message_id), path)
    if recipient.list_id is None:
        return
    contact_list = session.get(List, recipient.list_id)
    path = "" if contact_list is None else path_of_list(contact_list)
    yield _named("List", contact_list, shown_id(recipient.list_id), path)
    if recipient.contact_id is not None and viewer.sees_contacts:
        contact = session.get(Contact, recipient.contact_id)
        if contact is None or contact.list_id != recipient.list_id:
            yield Fact("Contact", f"{recipient.contact_id} (deleted)")
        else:
            address = contact.email or contact.mobile or recipient.contact_id
            yield Fact("Contact", address, f"{path}/contacts/{recipient.contact_id}")


def _named(label: str, row: Any, row_id: int, path: str) -> Fact:
    return Fact(label, f"{row_id} (deleted)") if row is None else Fact(label, row.name or "Unnamed", path)


def actions_for(explained: Explanation) -> list[str]:
    """What can be done in place: what hinders the message comes before the retry, and cancelling it last."""
    commands = [command for finding in explained.findings for command in finding.commands]
    actions = [action for words, action in REMEDIES.items() if any(command[:2] == words for command in commands)]
    retry = [] if actions or not any(command[:2] == ("sends", "retry") for command in commands) else ["retry"]
    cancel = ["cancel"] if explained.state in CANCELLABLE else []
    return [*actions, *retry, *cancel]


def retry(transaction: Transaction, services: Services, recipient: Recipient) -> None:
    """Sends the message again. Raises `ServiceError` (`conflict`) if it cannot be."""
    requeue(transaction, recipient.uuid)
    transaction.after_commit(lambda: services.wake_ups.wake(SENDS))


def address_of(session: Session, services: Services, recipient: Recipient) -> str:
    """The address of the message. Raises `ServiceError` (`conflict`) without one."""
    address = read_message(session, services, recipient).explained.address
    if address is None:
        raise ServiceError("conflict", detail="The message has no address.")
    return address


def remove_suppression(transaction: Transaction, services: Services, recipient: Recipient, action: str) -> None:
    """Unblocks the address of the message, or resubscribes it to the list of the message. Raises `ServiceError`
    (`conflict`) without an address."""
    normalized = normalize_address(ADDRESS_KIND_BY_TYPE[recipient.type], address_of(transaction, services, recipient))
    secret_and_account = services.settings.secret_key, recipient.account_id
    if action == "unblock":
        remove_blocked(transaction, *secret_and_account, normalized)
    else:
        remove_unsubscribed(transaction, *secret_and_account, normalized, recipient.list_id)
