"""Messages: searching them, and one with what mends it (docs/console.md#messages)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flask import Response
from flask.views import MethodView

from app.accounts.exports import record_export
from app.clock import now
from app.console.bulk_actions import PATH as OF_ACTIONS
from app.console.bulk_actions import offers_retry
from app.console.messages import (
    MOST_IN_ALL,
    PATH,
    Found,
    all_parts,
    is_live,
    message_of,
    read_message,
    remove_suppression,
    renewed_every,
    retry,
    search,
    sought,
)
from app.console.queries import IN_A_FILE, ON_A_PAGE, Pairs
from app.console.step_deliveries import step_deliveries
from app.db.database import ReadSession
from app.db.models import Account, Recipient
from app.errors import CATALOGUE, ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to, page, time
from app.http.console.searches import Search, account_of_request, csv_file, csv_stream, link, search_page
from app.http.context import services
from app.ids import shown_id
from app.query.cursors import CURSOR
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from app.recipients.states import SHOWN, RecipientState
from app.tracking.countries import country_name
from blueprints.console.blueprint import blp

COLUMNS = ("uuid", "creation_time", "type", "email", "mobile", "state", "reason", "group_id", "message_id", "list_id")
FILE_COLUMNS = (*COLUMNS, "contact_id", "attempts", "send_time", "first_open_time", "first_click_time")


@blp.route("/messages")
class Messages(MethodView):
    """The messages of an account."""

    @blp.scope("report.view")
    def get(self) -> Response:
        """A page of those that match the query, the newest first. A form leads to its query."""
        return search_page(SEARCH, states=SHOWN, sees_contacts=_viewer().sees_contacts)


@blp.route("/messages.csv")
class MessagesFile(MethodView):
    """The messages of the page as a file."""

    @blp.scope("report.view")
    def get(self) -> Response:
        """The newest of those that match the query."""
        with services().database.read() as session:
            account = account_of_request(session)
            items = _search(session, account, SEARCH.query(), IN_A_FILE).page.items
        record_export(services().database, "recipient.exported", account.id, recipients=len(items))
        return csv_file("messages.csv", FILE_COLUMNS, _rows(items))


@blp.route("/messages/all.csv")
class AllMessagesFile(MethodView):
    """All of it as a file."""

    @blp.scope("report.view")
    def get(self) -> Response:
        """All that match the query, the newest first, up to a maximum. It is written down before it begins."""
        parts = services()
        with parts.database.read() as session:
            account = account_of_request(session)
        found = all_parts(parts.database, parts.settings.secret_keys, account, SEARCH.query(), _viewer())
        record_export(parts.database, "recipient.exported", account.id)
        return csv_stream("messages.csv", FILE_COLUMNS, map(_rows, found))


def _rows(items: Iterable[dict[str, Any]]) -> Iterator[list[Any]]:
    return ([item[name] for name in FILE_COLUMNS] for item in items)


@blp.route("/messages/<uuid>")
class OneMessage(MethodView):
    """One message."""

    @blp.scope("report.view")
    def get(self, uuid: str) -> Response:
        """What became of it, why, and what mends it."""
        return _message(uuid)


@blp.route("/messages/<uuid>/retry")
class Retry(MethodView):
    """Sending a message again."""

    @blp.scope("send.email", "send.sms")
    def post(self, uuid: str) -> Response:
        """Puts it into the queue."""
        return _mended(uuid, "retry")


@blp.route("/messages/<uuid>/unblock")
class Unblock(MethodView):
    """Unblocking the address of a message."""

    @blp.scope("contact.update")
    def post(self, uuid: str) -> Response:
        """Messages to it are sent again."""
        return _mended(uuid, "unblock")


@blp.route("/messages/<uuid>/resubscribe")
class Resubscribe(MethodView):
    """Resubscribing the address of a message."""

    @blp.scope("contact.update")
    def post(self, uuid: str) -> Response:
        """Resubscribes it to the list of the message, and account-wide."""
        return _mended(uuid, "resubscribe")


def _search(session: ReadSession, account: Account, pairs: Pairs, limit: int) -> Found:
    return search(session, services().settings.secret_keys, account, pairs, viewer=_viewer(), limit=limit)


def _viewer() -> Viewer:
    return Viewer("contact.view" in signed_in().scopes, Redaction.of(services().settings))


def _whole(pairs: Pairs) -> Pairs:
    """The query from its first page on."""
    return [one for one in pairs if one[0] != CURSOR]


def _read(session: ReadSession, account: Account, pairs: Pairs) -> tuple[dict[str, Any], Pairs | None]:
    """What the page of a search shows."""
    whole = _whole(pairs)
    may_retry = {"send.email", "send.sms"} & set(signed_in().scopes) and offers_retry(account, whole)
    found, values = _search(session, account, pairs, ON_A_PAGE), dict(pairs)
    return {
        "items": found.page.items,
        "is_live": is_live(found.page) and CURSOR not in values,
        "every": link(f"{PATH}/all.csv", whole),
        "retries": link(f"{OF_ACTIONS}/preview", whole) if may_retry else None,
        "most": MOST_IN_ALL,
    }, found.older


SEARCH = Search(PATH, "Messages", "messages.html", sought, _read, nothing={"items": [], "is_live": False})


def _message(uuid: str, status: int = 200, refused: str | None = None) -> Response:
    viewer, who = _viewer(), signed_in()
    with services().database.read() as session:
        message = read_message(session, services(), message_of(session, who, uuid))
        recipient, state = message.recipient, message.explained.state
        told = step_deliveries(session, recipient, message.steps) if viewer.sees_contacts else {}
        is_paused = viewer.sees_contacts and state is RecipientState.PAUSED
        may_mend = viewer.sees_contacts and "contact.update" in who.scopes
        return page(
            "message.html",
            status,
            message=message,
            told=told,
            viewer=viewer,
            country_name=country_name,
            refused=refused,
            state=state if state in SHOWN or who.is_operator or is_paused else RecipientState.QUEUED,
            shown=(lambda text: text) if who.is_operator else viewer.redacted,
            actions=message.actions if may_mend else [],
            seconds=renewed_every(recipient, state, now()),
            facts=list(_facts(recipient, viewer)),
        )


def _facts(recipient: Recipient, viewer: Viewer) -> Iterator[tuple[str, Any]]:
    """What is known of the message beside its timeline."""
    yield "Group id", recipient.group_id
    if recipient.message_id is not None:
        yield "Message id", shown_id(recipient.message_id)
    if recipient.list_id is not None:
        yield "List id", shown_id(recipient.list_id)
    if recipient.contact_id is not None and viewer.sees_contacts:
        yield "Contact id", recipient.contact_id
    if recipient.attempts:  # counted with the outcome
        yield "Attempts", recipient.attempts
    for name, moment in (
        ("Sent", recipient.sent_time),
        ("First opened", recipient.first_open_time),
        ("First clicked", recipient.first_click_time),
        ("Reported as spam", recipient.complaint_time),
    ):
        if moment is not None:
            yield name, time(moment)


def _mended(uuid: str, action: str) -> Response:
    """The page of the message again, which tells of a refusal."""
    try:
        with services().database.write() as transaction:
            recipient = message_of(transaction, signed_in(), uuid)
            if action == "retry":
                retry(transaction, services(), recipient)
            else:
                remove_suppression(transaction, services(), recipient, action)
    except ServiceError as error:
        if error.code == "not_found":
            raise
        return _message(uuid, CATALOGUE[error.code].status, error.errors[0].developer_message)
    return goes_to(f"{PATH}/{uuid}")
