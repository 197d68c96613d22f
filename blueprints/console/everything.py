"""The search in the bar of every page (docs/console.md#searching)."""

from __future__ import annotations

from flask import Response, request

from app.console.everything import MAX_NAMES, find_by_name, find_contacts, searches_for
from app.console.messages import PATH as MESSAGES_PATH
from app.console.messages import message_of
from app.console.overview import live_accounts
from app.db.database import ReadSession
from app.db.models import Account
from app.errors import ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to, link, page
from app.http.console.searches import named_account_id
from app.http.context import services
from app.ids import UUID, existing
from app.names import LONGEST_NAME
from blueprints.console.blueprint import blp


@blp.shows("/search", "report.view")
def search() -> Response:
    """What has the text in its name, and the searches of other pages that it is meant for. The uuid of a message leads
    to the message."""
    text = request.args.get("find", "").replace("\0", "").strip()[:LONGEST_NAME]
    with services().database.read() as session:
        if UUID.fullmatch(text) and _is_message(session, text):
            return goes_to(link(f"{MESSAGES_PATH}/{text}"))
        account_id, scopes = named_account_id(session), signed_in().scopes
        if account_id is None:
            accounts = live_accounts(session, text) if text else []
            return page("everything.html", text=text, account=None, accounts=accounts)
        account = existing(session.get(Account, account_id), "account", account_id)
        matches = find_by_name(session, account_id, text, scopes) if text else []
        if "contact.view" in scopes:
            matches += find_contacts(session, account_id, text)
        searches = searches_for(text, scopes) if text else ()
        return page("everything.html", text=text, account=account, matches=matches, searches=searches, most=MAX_NAMES)


def _is_message(session: ReadSession, uuid: str) -> bool:
    try:
        message_of(session, signed_in(), uuid)
    except ServiceError:
        return False
    return True
