"""Bulk actions: previewing one, asking for it, undoing it, and its progress (docs/console.md#bulk-actions)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flask import Response, request
from flask.views import MethodView

from app.bulk_actions.ask import GRACE, ask, cancel
from app.bulk_actions.kinds import RETRY, WORDS, Kind
from app.bulk_actions.preview import VALID, Numbers, check_shown, preview
from app.bulk_actions.query import query_of
from app.bulk_actions.read import STATES
from app.clock import now
from app.console.bulk_actions import NAMES, PATH, RENEWED, one_action, search, sought
from app.console.messages import PATH as OF_MESSAGES
from app.console.queries import IN_A_FILE, ON_A_PAGE, Pairs
from app.db.database import ReadSession
from app.db.models import Account
from app.errors import ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import goes_to, page, status_of, texts_of
from app.http.console.searches import (
    Search,
    account_of_request,
    choose_account,
    csv_file,
    link,
    named_account_id,
    search_page,
)
from app.http.context import services
from app.http.paths import path_id
from app.http.responses import query_pairs
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from blueprints.console.blueprint import blp

# Previewing a bulk action and asking for it, whatever it does (docs/console.md#bulk-actions).


@dataclass(frozen=True, slots=True)
class BulkPreview:
    """A page that shows what a query finds, and offers these kinds of actions on all of it. `path` takes the form, and
    `search` is the page whose query it is."""

    template: str
    kinds: Mapping[str, Kind]
    path: str
    search: str
    title: str

    def shown(self) -> Response:
        """The page of the query of the request."""
        return self._page([one for one in query_pairs() if one[0] != "account"], None)

    def asked(self) -> Response:
        """Asks for the action of the form, and leads to its page; or tells why that is refused."""
        pairs, kind = query_of(request.form.get("query", "")), self.kinds.get(request.form.get("action", ""))
        try:
            if kind is None:
                raise ServiceError("invalid_string", field="action", detail="Say what becomes of them.")
            with services().database.read() as session:
                found = preview(session, kind, account_of_request(session), pairs)
            check_shown(Numbers.of(request.form.get("shown", "")), found)
            with services().database.write() as transaction:
                action = ask(transaction, account_of_request(transaction), found)
        except ServiceError as error:
            return self._page(pairs, error)
        return goes_to(link(f"{PATH}/{action.id}"))

    def _page(self, pairs: Pairs, error: ServiceError | None) -> Response:
        """What the query finds now, with why asking for it was refused. All kinds of a page find the same."""
        found = None
        with services().database.read() as session:
            if named_account_id(session) is None:
                return choose_account(session, self.search, self.title)
            account = account_of_request(session)
            try:
                found = preview(session, next(iter(self.kinds.values())), account, pairs)
            except ServiceError as refused:
                error = refused
            return page(
                self.template,
                status_of(error),
                account=account,
                found=found,
                refused=texts_of(error),
                viewer=Viewer("contact.view" in signed_in().scopes, Redaction.of(services().settings)),
                kinds=[(NAMES[name], found.of(kind)) for name, kind in self.kinds.items()] if found else [],
                words=WORDS,
                seconds=int(GRACE.total_seconds()),
                valid=int(VALID.total_seconds()),
                action=link(self.path),
                back=link(self.search, pairs),
            )


PREVIEW = BulkPreview("bulk_action_preview.html", {RETRY.name: RETRY}, PATH, OF_MESSAGES, "Messages")
FILE_COLUMNS = (
    *("id", "creation_time", "action", "query", "asked_by", "state", "messages", "done", "due_time", "end_time"),
)


@blp.route("/bulk-actions")
class BulkActions(MethodView):
    """The bulk actions of an account."""

    @blp.scope("contact.view")
    def get(self) -> Response:
        """A page of those that match the query, the newest first. A form leads to its query."""
        return search_page(SEARCH, states=STATES)

    @blp.scope("send.email", "send.sms")
    def post(self) -> Response:
        """Asks for the action that was previewed."""
        return PREVIEW.asked()


@blp.route("/bulk-actions.csv")
class BulkActionsFile(MethodView):
    """The bulk actions of the page as a file."""

    @blp.scope("contact.view")
    def get(self) -> Response:
        """The newest of those that match the query."""
        with services().database.read() as session:
            account = account_of_request(session)
            items = search(session, services().settings.secret_keys, account, SEARCH.query(), IN_A_FILE)[0]
        return csv_file("bulk-actions.csv", FILE_COLUMNS, ([item[name] for name in FILE_COLUMNS] for item in items))


@blp.route("/bulk-actions/preview")
class PreviewOfAction(MethodView):
    """What an action would be about."""

    @blp.scope("send.email", "send.sms")
    def get(self) -> Response:
        """How many messages the query finds that can be retried, and the first of them."""
        return PREVIEW.shown()


@blp.route("/bulk-actions/<action_id>")
class OneBulkAction(MethodView):
    """One bulk action."""

    @blp.scope("contact.view")
    def get(self, action_id: str) -> Response:
        """How far it has come, and what it has left out."""
        return _one(action_id)


@blp.route("/bulk-actions/<action_id>/cancel")
class CancelAction(MethodView):
    """Undoing an action that waits, and stopping one that runs."""

    @blp.scope("send.email", "send.sms", "contact.update")
    def post(self, action_id: str) -> Response:
        """Cancels it, for who may ask for one of its kind."""
        try:
            with services().database.write() as transaction:
                action = cancel(transaction, signed_in().account_id, path_id(action_id))
                needed = NAMES[action.action].scopes
                if not _has_any(needed):
                    raise ServiceError("permission_denied", detail=f"This needs the scope {' or '.join(needed)}.")
        except ServiceError as error:
            if error.code in ("not_found", "permission_denied"):
                raise
            return _one(action_id, error)
        return goes_to(link(f"{PATH}/{action.id}", None, action.account_id))


def _read(session: ReadSession, account: Account, pairs: Pairs) -> tuple[dict[str, Any], Pairs | None]:
    items, older = search(session, services().settings.secret_keys, account, pairs, ON_A_PAGE)
    return {"items": items, "is_live": any(item["end_time"] is None for item in items), "renewed": RENEWED}, older


SEARCH = Search(
    PATH,
    "Bulk actions",
    "bulk_actions.html",
    sought,
    _read,
    nothing={"items": [], "is_live": False, "renewed": RENEWED},
)


def _has_any(scopes: Sequence[str]) -> bool:
    return bool(set(scopes) & set(signed_in().scopes))


def _one(action_id: str, error: ServiceError | None = None) -> Response:
    with services().database.read() as session:
        one = one_action(session, signed_in().account_id, path_id(action_id), now())
        return page(
            "bulk_action.html",
            status_of(error),
            one=one,
            refused=texts_of(error),
            renewed=RENEWED,
            may_cancel=_has_any(one.named.scopes),
            messages=link(one.named.path, query_of(one.row.query), one.account.id),
            others=link(PATH, None, one.account.id),
        )
