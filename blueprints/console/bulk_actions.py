"""Bulk actions: previewing one, asking for it, cancelling it, its progress (docs/console-messages.md#bulk-actions)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from flask import Response, request

from app.bulk_actions.ask import UNDO_PERIOD, ask, cancel
from app.bulk_actions.kinds import CANCEL, REASON_TEXTS, RETRY, Kind
from app.bulk_actions.preview import VALID_FOR, Numbers, check_shown, preview
from app.bulk_actions.query import query_of
from app.bulk_actions.read import BULK_ACTIONS, STATES, page_actions
from app.clock import now
from app.console.bulk_actions import (
    ACTION_WORDS,
    CANCELLING_PATH,
    PATH,
    RENEWAL_SECONDS,
    SENDING_SCOPES,
    read_action,
    text_filter,
)
from app.console.message_search import filtered_by
from app.console.messages import PATH as MESSAGES_PATH
from app.console.queries import Pairs
from app.db.database import Transaction
from app.errors import ServiceError
from app.http.console.guard import may, signed_in
from app.http.console.navigation import HOME
from app.http.console.notices import Done
from app.http.console.pages import goes_to, link, page_after
from app.http.console.searches import Search, account_of_request, choose_account, named_account_id
from app.http.context import services
from app.http.paths import path_id
from app.http.responses import query_pairs
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from blueprints.console.blueprint import blp

# Previewing a bulk action and asking for it, whatever it does (docs/console-messages.md#bulk-actions).


@dataclass(frozen=True, slots=True)
class BulkPreview:
    """A page that shows what a query finds, and offers these kinds of actions on all of it. `path` takes the form, and
    `search` is the page whose query it is."""

    template: str
    kinds: Mapping[str, Kind]
    path: str
    search: str
    title: str

    def add_views(self, path: str, *scopes: str) -> None:
        """Adds the page, at the path, and the view that takes its form."""
        blp.shows(path, *scopes)(partial(self.show))
        blp.takes(self.path.removeprefix(HOME), *scopes)(partial(self.submit))

    def show(self) -> Response:
        """The page of the query of the request."""
        return self._page([pair for pair in query_pairs() if pair[0] != "account"], None)

    def submit(self) -> Response:
        """Asks for the action of the form, and leads to its page; or tells why that is refused."""
        pairs, kind = query_of(request.form.get("query", "")), self.kinds.get(request.form.get("action", ""))
        try:
            if kind is None:
                raise ServiceError("invalid_string", field="action", detail="Choose an action.")
            with services().database.read() as session:
                previewed = preview(session, kind, account_of_request(session), pairs)
            check_shown(Numbers.of(request.form.get("shown", "")), previewed)
            with services().database.write() as transaction:
                action = ask(transaction, account_of_request(transaction), previewed)
        except ServiceError as error:
            return self._page(pairs, error)
        return goes_to(link(f"{PATH}/{action.id}"))

    def _page(self, pairs: Pairs, error: ServiceError | None) -> Response:
        """What the query finds now, with why asking for it was refused. All kinds of a page find the same."""
        previewed = None
        with services().database.read() as session:
            if named_account_id(session) is None:
                return choose_account(session, self.search, self.title)
            account = account_of_request(session)
            try:
                previewed = preview(session, next(iter(self.kinds.values())), account, pairs)
            except ServiceError as refused:
                error = refused
            return page_after(
                error,
                self.template,
                account=account,
                preview=previewed,
                filtered_by=filtered_by(session, account.id, pairs),
                viewer=Viewer(may("contact.view"), Redaction.of(services().settings)),
                kinds=[(ACTION_WORDS[name], previewed.of(kind)) for name, kind in self.kinds.items()]
                if previewed
                else [],
                words=REASON_TEXTS,
                seconds=int(UNDO_PERIOD.total_seconds()),
                valid=int(VALID_FOR.total_seconds()),
                action=link(self.path),
                back=link(self.search, pairs),
            )


PREVIEW = BulkPreview("bulk_action_preview.html", {RETRY.name: RETRY}, PATH, MESSAGES_PATH, "Messages")
CANCELLING_PREVIEW = BulkPreview(
    "bulk_cancel_preview.html", {CANCEL.name: CANCEL}, CANCELLING_PATH, MESSAGES_PATH, "Messages"
)
SEARCH = Search(
    path=PATH,
    title="Bulk actions",
    template="bulk_actions.html",
    text_filter=text_filter,
    find=lambda search_request: search_request.read_page(PATH, BULK_ACTIONS.resource, page_actions),
    columns=(
        *("id", "creation_time", "action", "query", "asked_by", "state", "messages", "done", "due_time", "end_time"),
    ),
    context=lambda: {"states": STATES, "names": ACTION_WORDS, "renewed": RENEWAL_SECONDS},
    page_context=lambda _, search_page: {"is_live": any(item["end_time"] is None for item in search_page.items)},
)
blp.searches(SEARCH, "contact.view")
PREVIEW.add_views("/bulk-actions/preview", *SENDING_SCOPES)
CANCELLING_PREVIEW.add_views("/cancellations", *SENDING_SCOPES)


@blp.shows("/bulk-actions/<action_id>", "contact.view")
def action(error: ServiceError | None = None, *, action_id: str) -> Response:
    """How far an action has come, and what it has left out."""
    with services().database.read() as session:
        action_page = read_action(session, signed_in().account_id, path_id(action_id), now())
        return page_after(
            error,
            "bulk_action.html",
            action_page=action_page,
            renewed=RENEWAL_SECONDS,
            may_cancel=may(*action_page.words.scopes),
            messages=link(action_page.words.path, query_of(action_page.row.query), action_page.account.id),
            filtered_by=filtered_by(session, action_page.account.id, query_of(action_page.row.query)),
            others=link(PATH, None, action_page.account.id),
        )


@blp.changes("/bulk-actions/<action_id>/cancel", *SENDING_SCOPES, "contact.update", refused=action)
def undo(transaction: Transaction, action_id: str) -> Done:
    """Cancels an action that waits, or stops one that runs, for who may ask for one of its kind."""
    bulk_action = cancel(transaction, signed_in().account_id, path_id(action_id))
    needed = ACTION_WORDS[bulk_action.action].scopes
    if not may(*needed):
        raise ServiceError("permission_denied", detail=f"This needs the scope {' or '.join(needed)}.")
    return Done(link(f"{PATH}/{bulk_action.id}", None, bulk_action.account_id), "The bulk action was cancelled.")
