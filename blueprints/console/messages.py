"""Messages: searching them, and one with what to do about it (docs/console-messages.md#messages)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flask import Response

from app.accounts.exports import record_export
from app.addresses import ADDRESS_KIND_BY_TYPE, normalize_address
from app.clock import now
from app.console.bulk_actions import CANCELLING_PATH, SENDING_SCOPES, offers_cancelling, offers_retry
from app.console.bulk_actions import PATH as ACTIONS_PATH
from app.console.message_search import (
    CONSOLE_STATES,
    MAX_SEARCHED,
    TEXT_FILTER,
    TextMeaning,
    filtered_by,
    text_filter,
    understand,
)
from app.console.messages import (
    MAX_EXPORTED_MESSAGES,
    PATH,
    Fact,
    address_of,
    all_parts,
    is_live,
    message_of,
    origin_of,
    read_message,
    remove_suppression,
    renewed_every,
    retry,
    search,
)
from app.console.queries import FILE_ROWS, SearchPage, SearchRequest, without_cursor
from app.console.step_deliveries import step_deliveries
from app.console.suppressions import REMOVALS
from app.db.database import ReadSession, Transaction
from app.db.models import Recipient
from app.errors import ServiceError
from app.http.console.guard import may, signed_in
from app.http.console.notices import Done
from app.http.console.pages import link, page_after, time
from app.http.console.questions import Question
from app.http.console.searches import Search, account_of_request, csv_stream, export_recorder
from app.http.context import services
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from app.recipients.states import SHOWN_STATES, RecipientState
from app.sends.cancel import cancel
from app.suppressions.entries import suppressions_of
from app.tracking.countries import country_name
from blueprints.console.blueprint import blp
from blueprints.console.suppressions import removal_question

COLUMNS = (
    *("uuid", "creation_time", "type", "email", "mobile", "state", "reason", "group_id", "message_id", "list_id"),
    *("contact_id", "attempts", "send_time", "first_open_time", "first_click_time", "tags", "metadata"),
)


def _viewer() -> Viewer:
    return Viewer(may("contact.view"), Redaction.of(services().settings))


def _context(viewer: Viewer) -> Mapping[str, Any]:
    states = CONSOLE_STATES if viewer.sees_contacts else SHOWN_STATES
    return {
        "states": states,
        "sees_contacts": viewer.sees_contacts,
        "sees_stored": may("message.view"),
        "searched": MAX_SEARCHED,
    }


def _page_context(search_request: SearchRequest, search_page: SearchPage) -> Mapping[str, Any]:
    """What the page shows of a search beside its messages."""
    pairs, may_send = without_cursor(search_request.pairs), may(*SENDING_SCOPES)
    account = search_request.account
    return {
        "is_live": is_live(search_page) and pairs == search_request.pairs,
        "every": link(f"{PATH}/all.csv", pairs),
        "retries": link(f"{ACTIONS_PATH}/preview", pairs) if may_send and offers_retry(account, pairs) else None,
        "cancels": link(CANCELLING_PATH, pairs) if may_send and offers_cancelling(account, pairs) else None,
        "most": MAX_EXPORTED_MESSAGES,
        "understood": _understood(search_request),
        "filtered_by": filtered_by(search_request.session, search_request.account_id, pairs),
    }


def _understood(search_request: SearchRequest) -> TextMeaning | None:
    text = dict(search_request.pairs).get(TEXT_FILTER)
    return None if text is None else understand(search_request.session, search_request.account_id, text)


SEARCH = Search(
    path=PATH,
    title="Messages",
    template="messages.html",
    text_filter=text_filter,
    find=lambda search_request: search(search_request, _viewer()),
    columns=COLUMNS,
    context=lambda: _context(_viewer()),
    page_context=_page_context,
    record_file=export_recorder("recipient.exported", "recipients"),
)
blp.searches(SEARCH, "report.view")


@blp.shows("/messages/all.csv", "report.view")
def all_messages() -> Response:
    """All that match the query as a file, the newest first, up to a maximum. It is written down before it begins."""
    parts = services()
    with parts.database.read() as session:
        account = account_of_request(session)
        search_request = SearchRequest(session, parts.settings.secret_keys, account, SEARCH.query(), FILE_ROWS)
    message_parts = all_parts(parts.reports, search_request, _viewer())
    record_export(parts.database, "recipient.exported", account.id)
    return csv_stream("messages.csv", COLUMNS, map(_rows, message_parts))


def _rows(items: Iterable[Mapping[str, Any]]) -> Iterator[list[Any]]:
    return ([item[name] for name in COLUMNS] for item in items)


@blp.shows("/messages/<uuid>", "report.view")
def message(error: ServiceError | None = None, *, uuid: str) -> Response:
    """What became of a message, why, and what to do about it."""
    viewer, who = _viewer(), signed_in()
    with services().database.read() as session:
        message_page = read_message(session, services(), message_of(session, who, uuid))
        recipient, state = message_page.recipient, message_page.explained.state
        deliveries = step_deliveries(session, recipient, message_page.steps) if viewer.sees_contacts else {}
        may_act = viewer.sees_contacts and may("contact.update")
        return page_after(
            error,
            "message.html",
            message=message_page,
            deliveries=deliveries,
            viewer=viewer,
            country_name=country_name,
            state=state if state in SHOWN_STATES or viewer.sees_contacts else RecipientState.QUEUED,
            redact=(lambda text: text) if who.is_operator else viewer.redacted,
            actions=message_page.actions if may_act else [],
            seconds=renewed_every(recipient, state, now()),
            facts=list(_facts(session, recipient, viewer)),
        )


@blp.changes("/messages/<uuid>/retry", "send.email", "send.sms", refused=message)
def send_again(transaction: Transaction, uuid: str) -> Done:
    """Puts a message into the queue again."""
    retry(transaction, services(), message_of(transaction, signed_in(), uuid))
    return Done(f"{PATH}/{uuid}", "The message is queued again.")


def _before_cancelling(session: ReadSession, uuid: str) -> Question:
    recipient = message_of(session, signed_in(), uuid)
    facts = ["It ends as failed, with the reason “cancelled”, and cannot be sent again."]
    return Question("Cancel this message?", facts, "Cancel message", link(f"{PATH}/{uuid}", [], recipient.account_id))


@blp.changes("/messages/<uuid>/cancel", *SENDING_SCOPES, refused=message, asks=_before_cancelling)
def cancel_message(transaction: Transaction, uuid: str) -> Done:
    """Cancels a message that has not left."""
    cancel(transaction, services().settings, message_of(transaction, signed_in(), uuid).uuid)
    return Done(f"{PATH}/{uuid}", "The message was cancelled.")


def _add_removal(state: str) -> None:
    """Adds the view that removes the suppression of a message's address, after a question."""
    removal = REMOVALS[state]
    action = removal.verb.lower()

    def before(session: ReadSession, uuid: str) -> Question:
        recipient = message_of(session, signed_in(), uuid)
        address = address_of(session, services(), recipient)
        kind, account_id = ADDRESS_KIND_BY_TYPE[recipient.type], recipient.account_id
        entries = suppressions_of(session, account_id, recipient.list_id, [normalize_address(kind, address)])
        return removal_question(session, account_id, entries, state, address=address, back=f"{PATH}/{uuid}")

    @blp.changes(f"/messages/<uuid>/{action}", "contact.update", refused=message, asks=before)
    def remove(transaction: Transaction, uuid: str) -> Done:
        """Resubscribing concerns the list of the message, and the whole account."""
        remove_suppression(transaction, services(), message_of(transaction, signed_in(), uuid), action)
        return Done(f"{PATH}/{uuid}", removal.done)


for suppression_state in REMOVALS:
    _add_removal(suppression_state)


def _facts(session: ReadSession, recipient: Recipient, viewer: Viewer) -> Iterator[Fact]:
    """What is known of the message beside its timeline."""
    yield from origin_of(session, recipient, viewer)
    if recipient.attempts:  # counted with the outcome
        yield Fact("Attempts", recipient.attempts)
    for name, moment in (
        ("Sent", recipient.sent_time),
        ("First opened", recipient.first_open_time),
        ("First clicked", recipient.first_click_time),
        ("Reported as spam", recipient.complaint_time),
    ):
        if moment is not None:
            yield Fact(name, time(moment))
    for tag in recipient.tags or ():
        yield Fact("Tag", tag)
    if viewer.sees_contacts:
        for key, value in (recipient.custom_metadata or {}).items():
            yield Fact(f"Metadata {key}", value)
