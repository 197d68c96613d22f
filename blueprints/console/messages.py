"""Messages: searching them, and one with what mends it (docs/console.md#messages)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from flask import Response
from flask.views import MethodView

from app.audit.record import Act, record
from app.console.installation import live_accounts
from app.console.messages import (
    DAYS,
    IN_A_FILE,
    ON_A_PAGE,
    PATH,
    Found,
    Pairs,
    canonical,
    is_live,
    message_of,
    only_account,
    read_message,
    remove_suppression,
    retry,
    search,
)
from app.db.database import ReadSession
from app.db.models import Account, Recipient
from app.errors import CATALOGUE, ServiceError
from app.http.collections import query_pairs
from app.http.console.filters import time
from app.http.console.guard import chosen_account_id, signed_in
from app.http.console.pages import goes_to, page
from app.http.console.tables import csv_file
from app.http.context import services
from app.ids import existing, shown_id
from app.query.cursors import CURSOR
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from app.recipients.states import SHOWN, UNSETTLED, RecipientState
from blueprints.console.blueprint import blp

COLUMNS = ("uuid", "creation_time", "type", "email", "mobile", "state", "reason", "group_id", "message_id", "list_id")
FILE_COLUMNS = (*COLUMNS, "contact_id", "attempts", "send_time", "first_open_time", "first_click_time")


@blp.route("/messages")
class Messages(MethodView):
    """The messages of an account."""

    @blp.scope("report.view")
    def get(self) -> Response:
        """A page of those that match the query, the newest first. A form leads to its query."""
        given = query_pairs()
        pairs = canonical(given)
        with services().database.read() as session:
            account_id = chosen_account_id() or only_account(session)
            if account_id is None:
                return page("choose_account.html", accounts=live_accounts(session))
            if pairs != [one for one in given if one[0] != "account"]:
                return goes_to(_link(pairs))
            account = existing(session.get(Account, account_id), "account", account_id)
            try:
                found = _search(session, account, pairs, ON_A_PAGE)
            except ServiceError as error:
                words = [one.developer_message for one in error.errors]
                status = CATALOGUE[error.code].status
                return page("messages.html", status, **_shown(account, pairs, None), refused=words)
        return page("messages.html", **_shown(account, pairs, found), refused=[])


@blp.route("/messages.csv")
class MessagesFile(MethodView):
    """The same as a file."""

    @blp.scope("report.view")
    def get(self) -> Response:
        """The newest of those that match the query."""
        pairs = canonical(query_pairs())
        with services().database.read() as session:
            account_id = chosen_account_id() or only_account(session)
            account = existing(None if account_id is None else session.get(Account, account_id), "account", 0)
            items = _search(session, account, pairs, IN_A_FILE).page.items
        with services().database.write() as transaction:
            record(transaction, Act("recipient.exported", account.id, counts={"recipients": len(items)}))
        rows = ([item[name] for name in FILE_COLUMNS] for item in items)
        return csv_file("messages.csv", FILE_COLUMNS, rows)


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


def _shown(account: Account, pairs: Pairs, found: Found | None) -> dict[str, Any]:
    """What the page of a search shows; without `found` the query was refused."""
    values = dict(pairs)
    days = DAYS.fullmatch(values.get("creation_time:in", ""))
    return {
        "account": account,
        "items": found.page.items if found else [],
        "values": values,
        "days": days.groups() if days else ("", ""),
        "sought": values.get("uuid") or values.get("email") or values.get("mobile") or "",
        "states": SHOWN,
        "sees_contacts": _viewer().sees_contacts,
        "is_live": found is not None and is_live(found.page) and CURSOR not in values,
        "older": _link(found.older) if found and found.older else None,
        "newest": _link([one for one in pairs if one[0] not in (CURSOR, "offset")]) if CURSOR in values else None,
        "csv": _link(pairs, f"{PATH}.csv"),
    }


def _link(pairs: Pairs, path: str = PATH) -> str:
    """The path with the query, for operators with their account."""
    account_id = chosen_account_id() if signed_in().is_operator else None
    named = [*pairs, *([("account", str(account_id))] if account_id is not None else [])]
    return f"{path}?{urlencode(named, quote_via=quote, safe=':,', errors='replace')}" if named else path


def _message(uuid: str, status: int = 200, refused: str | None = None) -> Response:
    viewer, who = _viewer(), signed_in()
    with services().database.read() as session:
        message = read_message(session, services(), message_of(session, who.account_id, uuid))
        recipient, state = message.recipient, message.explained.state
        may_mend = viewer.sees_contacts and "contact.update" in who.scopes
        return page(
            "message.html",
            status,
            message=message,
            viewer=viewer,
            refused=refused,
            state=state if state in SHOWN or who.is_operator else RecipientState.QUEUED,
            shown=(lambda text: text) if who.is_operator else viewer.redacted,
            actions=message.actions if may_mend else [],
            is_live=state in UNSETTLED,
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
            recipient = message_of(transaction, signed_in().account_id, uuid)
            if action == "retry":
                retry(transaction, services(), recipient)
            else:
                remove_suppression(transaction, services(), recipient, action)
    except ServiceError as error:
        if error.code == "not_found":
            raise
        return _message(uuid, CATALOGUE[error.code].status, error.errors[0].developer_message)
    return goes_to(f"{PATH}/{uuid}")
