"""Suppressions: searching, adding and removing them (docs/console.md#suppressions)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from flask import Response

from app.bulk_actions.kinds import UNBLOCK
from app.console.bulk_actions import offers_unblocking
from app.console.messages import PATH as OF_MESSAGES
from app.console.queries import SearchPage, SearchRequest, address_filter, without_cursor
from app.console.suppressions import (
    PATH,
    NewSuppression,
    Suppression,
    add_suppression,
    causes,
    find_suppression,
    remove_suppression,
    search,
)
from app.console.uploads import MOST_ROWS
from app.contacts.blocked import STATES
from app.db.database import Transaction
from app.errors import ServiceError
from app.http.console.guard import signed_in
from app.http.console.pages import form_texts, link, page
from app.http.console.searches import Search, account_of_request, export_recorder
from app.http.context import services
from app.http.paths import path_id
from app.recipients.read import Viewer
from app.recipients.redaction import Redaction
from blueprints.console.blueprint import blp
from blueprints.console.bulk_actions import BulkPreview


def _row(one: Suppression) -> Mapping[str, Any] | None:
    """Without forgotten people."""
    return None if one.address is None else {**asdict(one), "list": one.list_name, "list_id": one.list_id}


def _shown_on_page(search_request: SearchRequest, _found: SearchPage) -> Mapping[str, Any]:
    pairs = without_cursor(search_request.pairs)
    unblocks = (
        link(f"{PATH}/unblock", pairs) if _may_change() and offers_unblocking(search_request.account, pairs) else None
    )
    return {"shown": _shown(), "unblocks": unblocks}


SEARCH = Search(
    path=PATH,
    title="Suppressions",
    template="suppressions.html",
    text_filter=address_filter,
    find=search,
    columns=("state", "kind", "address", "list_id", "list", "reason", "creation_time", "reply"),
    row=_row,
    context=lambda: {"states": STATES, "may_change": _may_change(), "most_rows": MOST_ROWS},
    page_context=_shown_on_page,
    record_file=export_recorder("suppression.exported", "suppressions"),
)
blp.searches(SEARCH, "contact.view")
UNBLOCKING = BulkPreview("suppressions_unblock.html", {UNBLOCK.name: UNBLOCK}, f"{PATH}/unblock", PATH, SEARCH.title)


@blp.changes("/suppressions", "contact.update", refused=SEARCH.page)
def add(transaction: Transaction) -> str:
    """Blocks or unsubscribes the address of the form."""
    form = form_texts("address", "state", "list", "reason")
    account = account_of_request(transaction)
    add_suppression(transaction, services().settings.secret_key, account.id, NewSuppression(**form))
    return link(PATH, [address_filter(form["address"])])


@blp.shows("/suppressions/<state>/<suppression_id>", "contact.view")
def suppression(state: str, suppression_id: str) -> Response:
    """Why an address gets nothing, since when, and by what."""
    secret_keys = services().settings.secret_keys
    with services().database.read() as session:
        account_id, one = find_suppression(session, signed_in().account_id, state, path_id(suppression_id))
        found = causes(session, secret_keys, account_id, one)
    messages = link(OF_MESSAGES, [address_filter(one.address)], account_id) if one.address else None
    return page("suppression.html", one=one, causes=found, shown=_shown(), messages=messages, may_change=_may_change())


@blp.changes("/suppressions/<state>/<suppression_id>/remove", "contact.update")
def remove(transaction: Transaction, state: str, suppression_id: str) -> str:
    """Unblocks an address, or resubscribes it."""
    account_id, one = find_suppression(transaction, signed_in().account_id, state, path_id(suppression_id))
    remove_suppression(transaction, services().settings.secret_key, account_id, one)
    return link(PATH, [address_filter(one.address or "")], account_id)


@blp.shows("/suppressions/unblock", "contact.update")
def preview_unblocking() -> Response:
    """How many blocked addresses the query finds, and the newest of them."""
    return UNBLOCKING.shown()


@blp.takes("/suppressions/unblock", "contact.update")
def unblock() -> Response:
    """Asks for unblocking all that a search shows, as a bulk action."""
    return UNBLOCKING.asked()


def _shown() -> Callable[[str | None], str | None]:
    """A reply as the signed-in person may read it."""
    return (lambda text: text) if signed_in().is_operator else Viewer(True, Redaction.of(services().settings)).redacted


def _may_change() -> bool:
    return "contact.update" in signed_in().scopes


def refused(error: ServiceError) -> Response:
    """The page, which says why a form is refused."""
    if error.code == "not_found":
        raise error
    return SEARCH.page(error)
