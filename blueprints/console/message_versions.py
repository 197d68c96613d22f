"""The versions of a stored message: what changed in each, and writing one back (docs/console.md#stored-messages)."""

from __future__ import annotations

from flask import Response, request
from flask.views import MethodView

from app.console.message_versions import compared
from app.console.scopes import MANAGE
from app.console.stored_messages import PATH, VERSIONS, find_message
from app.db.models import Message
from app.errors import ServiceError
from app.http.console.guard import chosen_account_id, signed_in
from app.http.console.pages import goes_to, page, status_of, texts_of
from app.http.console.searches import link
from app.http.context import services
from app.http.paths import path_id
from app.ids import shown_id
from app.messages.history import restore_version, versions_of
from app.messages.versions import MOST
from blueprints.console.blueprint import blp


@blp.route("/stored-messages/<message_id>/versions")
class Versions(MethodView):
    """The versions of a stored message."""

    @blp.scope(VERSIONS)
    def get(self, message_id: str) -> Response:
        """All that are kept, the newest first, without what they say."""
        with services().database.read() as session:
            message = find_message(session, chosen_account_id(), path_id(message_id))
            versions = versions_of(session, message)
        return page(
            "message_versions.html", message=message, versions=versions, most=MOST, link=link, of=_path(message)
        )


@blp.route("/stored-messages/<message_id>/versions/<version_number>")
class OneVersion(MethodView):
    """One version of a stored message."""

    @blp.scope(VERSIONS)
    def get(self, message_id: str, version_number: str) -> Response:
        """What differs from the one before, or from the one that the query names."""
        return _one(message_id, version_number)


@blp.route("/stored-messages/<message_id>/versions/<version_number>/restore")
class Restore(MethodView):
    """Writing a version back."""

    @blp.scope(MANAGE)
    def post(self, message_id: str, version_number: str) -> Response:
        """Makes it the newest once more, and goes to the message."""
        try:
            with services().database.write() as transaction:
                message = find_message(transaction, chosen_account_id(), path_id(message_id))
                restore_version(transaction, message, path_id(version_number))
        except ServiceError as error:
            if error.code == "not_found":
                raise
            return _one(message_id, version_number, error)
        return goes_to(link(_path(message), [], message.account_id))


def _one(message_id: str, version_number: str, error: ServiceError | None = None) -> Response:
    against = request.args.get("against")
    with services().database.read() as session:
        message = find_message(session, chosen_account_id(), path_id(message_id))
        found = compared(session, message, path_id(version_number), path_id(against) if against else None)
    return page(
        "message_version.html",
        status_of(error),
        message=message,
        found=found,
        refused=texts_of(error),
        may_manage=MANAGE in signed_in().scopes,
        shown_id=shown_id(message.id),
        link=link,
        of=_path(message),
    )


def _path(message: Message) -> str:
    return f"{PATH}/{shown_id(message.id)}"
