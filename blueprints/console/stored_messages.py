"""Stored messages: searching and creating them, and their versions (docs/console.md#stored-messages)."""

from __future__ import annotations

from flask import Response, request

from app.accounts.sessions import MANAGE
from app.console.stored_messages import ATTRIBUTES, PATH, VERSIONS, compared, find_message, sought
from app.db.database import ReadSession, Transaction
from app.db.models import Message
from app.errors import ServiceError
from app.http.console.guard import chosen_account_id, signed_in
from app.http.console.pages import link, page, page_after
from app.http.console.searches import Search, account_of_request
from app.http.context import services
from app.http.paths import path_id
from app.ids import shown_id
from app.messages.define import create_message
from app.messages.history import restore_version, versions_of
from app.messages.read import MESSAGES, page_messages
from app.messages.versions import MOST
from blueprints.console.blueprint import blp
from schemas.base import load
from schemas.messages import NEW

SEARCH = Search(
    path=PATH,
    title="Stored messages",
    template="stored_messages.html",
    sought=sought,
    find=lambda asked: asked.found(PATH, MESSAGES.resource, page_messages),
    columns=(
        *("id", "name", "type", "subject", "from_name", "from_address", "reply_to", "thumbnail_url"),
        *("creation_time", "last_modified_time"),
    ),
    known=lambda: {"may_manage": MANAGE in signed_in().scopes, "types": [*ATTRIBUTES], "of": PATH},
)
blp.searches(SEARCH, "message.view")


@blp.changes("/stored-messages", MANAGE, refused=SEARCH.page)
def create(transaction: Transaction) -> str:
    """Creates a message without content, and goes to its page."""
    account = account_of_request(transaction)
    form = {name: request.form.get(name, "") for name in ("name", "type")}
    return path_of(create_message(transaction, account.id, load(NEW, form)))


# The versions of a stored message: what changed in each, and writing one back (docs/console.md#stored-messages).


@blp.shows("/stored-messages/<message_id>/versions", VERSIONS)
def versions(message_id: str) -> Response:
    """All versions that are kept, the newest first, without what they say."""
    with services().database.read() as session:
        message = message_of_path(session, message_id)
        kept = versions_of(session, message)
    return page("message_versions.html", message=message, versions=kept, most=MOST, of=_own(message))


@blp.shows("/stored-messages/<message_id>/versions/<version_number>", VERSIONS)
def version(error: ServiceError | None = None, *, message_id: str, version_number: str) -> Response:
    """What differs in a version from the one before, or from the one that the query names."""
    against = request.args.get("against")
    with services().database.read() as session:
        message = message_of_path(session, message_id)
        found = compared(session, message, path_id(version_number), path_id(against) if against else None)
    may_manage = MANAGE in signed_in().scopes
    known = {"shown_id": shown_id(message.id), "may_manage": may_manage, "of": _own(message)}
    return page_after(error, "message_version.html", message=message, found=found, **known)


@blp.changes("/stored-messages/<message_id>/versions/<version_number>/restore", MANAGE, refused=version)
def restore(transaction: Transaction, message_id: str, version_number: str) -> str:
    """Makes a version the newest once more, and goes to the message."""
    message = message_of_path(transaction, message_id)
    restore_version(transaction, message, path_id(version_number))
    return path_of(message)


def message_of_path(session: ReadSession | Transaction, message_id: str) -> Message:
    """The message of the path, of the account of the session, or for operators of any. Raises `not_found`."""
    return find_message(session, chosen_account_id(), path_id(message_id))


def path_of(message: Message) -> str:
    """The path of the page of a message, for operators with its account."""
    return link(_own(message), [], message.account_id)


def _own(message: Message) -> str:
    return f"{PATH}/{shown_id(message.id)}"
