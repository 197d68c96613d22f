"""What test keys have sent, captured instead of sent (docs/console.md#inbox)."""

from __future__ import annotations

from dataclasses import replace

from flask import Response

from app.accounts.testing import test_account_of
from app.addresses import MESSAGE_TYPES
from app.console.content import TextMessage
from app.console.inbox import folders
from app.console.inbox.captured import PATH, find_message, sought
from app.console.inbox.opened import message_of_capture
from app.console.queries import Asked, Found
from app.db.models import Account
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to, link
from app.http.console.searches import Search, exported
from app.http.context import services
from app.http.paths import path_id
from app.inbox.shown import INBOX, page_captured
from app.query.cursors import CURSOR
from app.transports.email.read_mail import Mail
from blueprints.console.blueprint import blp
from blueprints.console.content import add_opened_parts, opened_page


def _captured_for(asked: Asked) -> Account | None:
    """The account whose messages are captured; None if the account has none yet."""
    return None if asked.account is None else test_account_of(asked.session, asked.account)


def _find(asked: Asked) -> Found:
    """Of an account that has no test account yet nothing is captured."""
    of = _captured_for(asked) if signed_in().sees_tests else None
    return replace(asked, account=of or asked.account).found(PATH, INBOX.resource, page_captured)


SEARCH = Search(
    path=PATH,
    title="Inbox",
    template="inbox.html",
    sought=sought,
    find=_find,
    columns=("id", "captured_time", "type", "address", "sender", "subject", "blind_copy", "uuid"),
    known=lambda: {"types": MESSAGE_TYPES, "of_folders": None if signed_in().is_test else link(folders.PATH)},
    shown=lambda asked, _: {
        "has_tests": _captured_for(asked) is not None,
        "is_live": CURSOR not in dict(asked.pairs),
    },
    recorded=exported("recipient.exported", "recipients"),
    time="captured_time",
)


def _inbox() -> Response:
    """Who sees no tests comes to the folders, into which test keys do not write."""
    return SEARCH.page() if signed_in().sees_tests else goes_to(link(folders.PATH))


blp.searches(SEARCH, "contact.view", page=_inbox)


@blp.shows("/inbox/<captured_id>", "contact.view")
def captured(captured_id: str) -> Response:
    """The parts of a captured message, its links and checks."""
    with services().database.read() as session:
        found = find_message(session, signed_in(), path_id(captured_id))
        known = {"uuid": found.uuid, "base": f"{PATH}/{found.id}", "captured": found}
        return opened_page(session, found.account_id, message_of_capture(found), **known)


def _message(captured_id: str) -> Mail | TextMessage:
    with services().database.read() as session:
        return message_of_capture(find_message(session, signed_in(), path_id(captured_id)))


add_opened_parts("/inbox/<captured_id>", _message)
